// A button. A disabled button with a reason stays focusable and shows the reason; a busy button ignores further clicks.
import { type ButtonHTMLAttributes, type ReactNode, useId } from 'react'
import css from './button.module.css'

export type ButtonKind = 'main' | 'plain' | 'danger' | 'quiet'

interface ButtonProps
  extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'disabled' | 'className' | 'style'> {
  kind?: ButtonKind
  small?: boolean
  busy?: boolean
  /** Why it is disabled. */
  reason?: string | undefined
  /** The page shows the reason already; it is only linked to the button. */
  reasonHidden?: boolean
  children: ReactNode
}

export const buttonClass = (kind: ButtonKind = 'plain', small = false): string =>
  `${css.button} ${css[kind]} ${small ? css.small : ''}`

export function Button(props: ButtonProps) {
  const { kind, small, busy = false, reason, reasonHidden, children, onClick, ...rest } = props
  const id = useId()
  const isOff = busy || reason !== undefined
  return (
    <>
      <button
        type="button"
        {...rest}
        className={buttonClass(kind, small)}
        aria-disabled={isOff || undefined}
        aria-busy={busy || undefined}
        aria-describedby={reason ? id : rest['aria-describedby']}
        title={reason ?? rest.title}
        onClick={(event) => {
          if (isOff) event.preventDefault()
          else onClick?.(event)
        }}
      >
        {children}
        {busy && <span className={css.busy} aria-hidden="true" />}
      </button>
      {reason && (
        <span id={id} className={reasonHidden ? 'visually-hidden' : css.reason}>
          {reason}
        </span>
      )}
    </>
  )
}
