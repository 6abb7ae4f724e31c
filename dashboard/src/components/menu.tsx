// A menu. The button is ours and is there from the start; the list comes from the component library, which is loaded
// when the pointer or the focus reaches the button.
import { Link } from '@tanstack/react-router'
import { type KeyboardEvent, type ReactNode, useContext, useRef, useState } from 'react'
import { type ButtonKind, buttonClass } from './button.tsx'
import { onDemand } from './loading/on-demand.tsx'
import css from './overlays/menu.module.css'
import { MenuContext } from './overlays/menu-parts.ts'

const load = () => import('./overlays/menu-list.tsx')
/** Ahead of the press; a failure is told when the menu opens. */
const warm = () => void load().catch(() => undefined)
const MenuList = onDemand(load)

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
        onPointerEnter={warm}
        onFocus={warm}
        onClick={() => open(!isOpen)}
        onKeyDown={onKeyDown}
      >
        {face ?? label}
      </button>
      {wasOpened && (
        <MenuList anchor={ref} isOpen={isOpen} onOpenChange={open} label={label}>
          {children}
        </MenuList>
      )}
    </>
  )
}

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
