// A menu. The button is ours and is there from the start; the list comes from the component library, which is loaded
// when the pointer or the focus reaches the button.
import { Link } from '@tanstack/react-router'
import {
  type ComponentType,
  createContext,
  type KeyboardEvent,
  lazy,
  type ReactElement,
  type ReactNode,
  Suspense,
  useContext,
  useRef,
  useState,
} from 'react'
import { type ButtonKind, buttonClass } from './button.tsx'
import css from './overlays/menu.module.css'

const load = () => import('./overlays/menu-list.tsx')
const MenuList = lazy(load)

interface MenuProps {
  label: string
  /** What the button shows; defaults to its label. */
  face?: ReactNode
  kind?: ButtonKind
  small?: boolean
  children: ReactNode
}

export function Menu({ label, face, kind = 'quiet', small, children }: MenuProps) {
  const ref = useRef<HTMLButtonElement>(null)
  const [isOpen, setOpen] = useState(false)
  const [wasOpened, setOpened] = useState(false)
  const open = (next: boolean) => {
    setOpen(next)
    if (next) setOpened(true)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
    event.preventDefault()
    open(true)
  }
  return (
    <>
      <button
        ref={ref}
        type="button"
        aria-label={face ? label : undefined}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        className={buttonClass(kind, small)}
        onPointerEnter={() => void load()}
        onFocus={() => void load()}
        onClick={() => open(!isOpen)}
        onKeyDown={onKeyDown}
      >
        {face ?? label}
      </button>
      {wasOpened && (
        <Suspense fallback={null}>
          <MenuList anchor={ref} isOpen={isOpen} onOpenChange={open} label={label}>
            {children}
          </MenuList>
        </Suspense>
      )}
    </>
  )
}

/** The library's items, given by the list: the entries below are part of the first load, the library is not. */
export interface MenuParts {
  Item: ComponentType<{ className?: string; onClick?(): void; children: ReactNode }>
  LinkItem: ComponentType<{
    className?: string
    closeOnClick: boolean
    render: ReactElement
  }>
}
export const MenuContext = createContext<MenuParts | null>(null)

/** `to` is a page of the dashboard, `href` is any other address. */
export function MenuLink(props: { to: string; children: ReactNode }): ReactNode
export function MenuLink(props: { href: string; children: ReactNode }): ReactNode
export function MenuLink({
  to,
  href,
  children,
}: {
  to?: string
  href?: string
  children: ReactNode
}) {
  const parts = useContext(MenuContext)
  if (!parts) return null
  return (
    <parts.LinkItem
      closeOnClick
      className={css.item ?? ''}
      render={
        to === undefined ? (
          <a href={href} rel="noreferrer">
            {children}
          </a>
        ) : (
          <Link to={to}>{children}</Link>
        )
      }
    />
  )
}

export function MenuButton({ onClick, children }: { onClick(): void; children: ReactNode }) {
  const parts = useContext(MenuContext)
  if (!parts) return null
  return (
    <parts.Item className={css.item ?? ''} onClick={onClick}>
      {children}
    </parts.Item>
  )
}

export const MenuNote = ({ children }: { children: ReactNode }) => (
  <div className={css.note}>{children}</div>
)

export const MenuLine = () => <div className={css.line} />
