// A menu on the browser's own popover: Escape or a click elsewhere closes it, and it needs no z-index.
import { Link } from '@tanstack/react-router'
import { type ReactNode, type ToggleEvent, useId, useRef } from 'react'
import { type ButtonKind, buttonClass } from './button.tsx'
import css from './menu.module.css'

interface MenuProps {
  label: string
  /** What the button shows; defaults to its label. */
  face?: ReactNode
  kind?: ButtonKind
  small?: boolean
  children: ReactNode
}

export function Menu({ label, face, kind = 'quiet', small, children }: MenuProps) {
  const id = useId()
  const ref = useRef<HTMLDivElement>(null)
  /** Before it shows, so that it appears at its button, and again when its size is known. */
  const place = ({ newState }: ToggleEvent<HTMLElement>) => {
    const list = ref.current
    const button = document.getElementById(`${id}-button`)
    if (newState !== 'open' || !list || !button) return
    const at = button.getBoundingClientRect()
    list.style.top = `${Math.min(at.bottom + 4, innerHeight - list.offsetHeight - 8)}px`
    list.style.left = `${Math.max(8, Math.min(at.left, innerWidth - list.offsetWidth - 8))}px`
  }
  return (
    <>
      <button
        type="button"
        id={`${id}-button`}
        popoverTarget={id}
        aria-label={face ? label : undefined}
        className={buttonClass(kind, small)}
      >
        {face ?? label}
      </button>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrows help, the items inside are what is used */}
      <div
        ref={ref}
        id={id}
        popover="auto"
        className={css.menu}
        onBeforeToggle={place}
        onToggle={place}
        onClick={(event) => {
          if ((event.target as Element).closest('a, button')) ref.current?.hidePopover()
        }}
        onKeyDown={walk}
      >
        {children}
      </div>
    </>
  )
}

function walk(event: React.KeyboardEvent<HTMLElement>): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
  if (step === 0) return
  event.preventDefault()
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>('a, button, input, select')]
  const at = items.indexOf(document.activeElement as HTMLElement)
  items[(at + step + items.length) % items.length]?.focus()
}

export function MenuLink({ to, children }: { to: string; children: ReactNode }) {
  return (
    <Link to={to} className={css.item}>
      {children}
    </Link>
  )
}

export function MenuButton({ onClick, children }: { onClick(): void; children: ReactNode }) {
  return (
    <button type="button" className={css.item} onClick={onClick}>
      {children}
    </button>
  )
}

export const MenuNote = ({ children }: { children: ReactNode }) => (
  <div className={css.note}>{children}</div>
)
