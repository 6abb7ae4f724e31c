// The list of a menu: roles, arrows, typing ahead, Escape and placing come from Base UI.
import { Menu } from '@base-ui/react/menu'
import {
  Children,
  isValidElement,
  type ReactElement,
  type ReactNode,
  type RefObject,
  useState,
} from 'react'
import { landmarkOf } from './landmark.ts'
import css from './menu.module.css'
import { MenuContext, type MenuParts } from './menu-parts.ts'

const PARTS: MenuParts = {
  Item: Menu.Item as MenuParts['Item'],
  LinkItem: Menu.LinkItem as MenuParts['LinkItem'],
}

interface MenuListProps {
  anchor: RefObject<HTMLButtonElement | null>
  label: string
  isOpen: boolean
  onOpenChange(isOpen: boolean): void
  children: ReactNode
}

export default function MenuList(props: MenuListProps) {
  const { anchor, label, isOpen, onOpenChange, children } = props
  const [container] = useState(() => landmarkOf(anchor.current))
  return (
    <Menu.Root open={isOpen} onOpenChange={onOpenChange}>
      <Menu.Portal container={container} className={css.portal ?? ''}>
        <Menu.Positioner
          anchor={anchor}
          align="start"
          sideOffset={6}
          collisionPadding={8}
          className={css.place ?? ''}
        >
          <Menu.Popup className={css.menu ?? ''} aria-label={label} finalFocus={anchor}>
            <MenuContext value={PARTS}>{Children.map(children, asItem)}</MenuContext>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}

/** A plain link becomes an item, so that arrows reach it. */
function asItem(child: ReactNode): ReactNode {
  if (!isValidElement(child) || child.type !== 'a') return child
  return <Menu.LinkItem closeOnClick className={css.item ?? ''} render={child as ReactElement} />
}
