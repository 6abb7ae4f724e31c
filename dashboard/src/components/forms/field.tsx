// Fields: label, hint and error, linked to each other for screen readers.
import {
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
  useState,
} from 'react'
import { Button } from '../button.tsx'
import { Icon } from '../icon.tsx'
import css from './form.module.css'
import { useFieldError } from './form.tsx'

interface About {
  label: string
  hint?: ReactNode
}

interface Typed extends About {
  /** Other fields of the API whose messages belong here. */
  also?: readonly string[]
}

interface Ties {
  id: string
  className: string | undefined
  'aria-invalid': true | undefined
  'aria-describedby': string | undefined
}

function useTies(
  name: string | undefined,
  hint: ReactNode,
  label: string,
  also?: readonly string[],
): { ties: Ties; error: string | undefined } {
  const id = useId()
  const error = useFieldError(id, name, label, also)
  const described = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ')
  const ties = {
    id,
    className: css.control,
    'aria-invalid': error ? (true as const) : undefined,
    'aria-describedby': described || undefined,
  }
  return { ties, error }
}

function Frame({
  id,
  label,
  hint,
  error,
  children,
}: About & {
  id: string
  error: string | undefined
  children: ReactNode
}) {
  return (
    <div className={css.field}>
      <label className={css.label} htmlFor={id}>
        {label}
      </label>
      {children}
      {hint && (
        <div id={`${id}-hint`} className={css.hint}>
          {hint}
        </div>
      )}
      {error && (
        <div id={`${id}-error`} className={css.error}>
          {error}
        </div>
      )}
    </div>
  )
}

type Plain<T> = Omit<T, 'id' | 'className' | 'style'>

export function Text({
  label,
  hint,
  also,
  ...rest
}: Typed & Plain<InputHTMLAttributes<HTMLInputElement>>) {
  const { ties, error } = useTies(rest.name, hint, label, also)
  return (
    <Frame id={ties.id} label={label} hint={hint} error={error}>
      <input type="text" {...rest} {...ties} />
    </Frame>
  )
}

export function Area({
  label,
  hint,
  also,
  ...rest
}: Typed & Plain<TextareaHTMLAttributes<HTMLTextAreaElement>>) {
  const { ties, error } = useTies(rest.name, hint, label, also)
  return (
    <Frame id={ties.id} label={label} hint={hint} error={error}>
      <textarea spellCheck={false} {...rest} {...ties} />
    </Frame>
  )
}

export function Select({
  label,
  hint,
  children,
  ...rest
}: About & Plain<SelectHTMLAttributes<HTMLSelectElement>>) {
  const { ties, error } = useTies(rest.name, hint, label)
  return (
    <Frame id={ties.id} label={label} hint={hint} error={error}>
      <select {...rest} {...ties}>
        {children}
      </select>
    </Frame>
  )
}

export function Check({
  label,
  hint,
  ...rest
}: About & Plain<InputHTMLAttributes<HTMLInputElement>>) {
  const { ties, error } = useTies(rest.name, hint, label)
  return (
    <div className={css.check}>
      <input type="checkbox" {...rest} {...ties} className={undefined} />
      <div>
        <label htmlFor={ties.id}>{label}</label>
        {hint && (
          <div id={`${ties.id}-hint`} className={css.hint}>
            {hint}
          </div>
        )}
        {error && (
          <div id={`${ties.id}-error`} className={css.error}>
            {error}
          </div>
        )}
      </div>
    </div>
  )
}

/** A write-only value: masked, with a button that reveals what is being typed. */
export function Secret({
  label,
  hint,
  name,
  required,
  maxLength,
}: About & { name: string; required?: boolean; maxLength?: number }) {
  const [isShown, show] = useState(false)
  const { ties, error } = useTies(name, hint, label)
  return (
    <Frame id={ties.id} label={label} hint={hint} error={error}>
      <div className={css.secret}>
        <textarea
          {...ties}
          className={`${css.control} ${isShown ? '' : css.masked}`}
          name={name}
          rows={1}
          required={required}
          maxLength={maxLength}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
        />
        <Button aria-pressed={isShown} onClick={() => show(!isShown)}>
          <Icon name="eye" />
          <span className="visually-hidden">Show value</span>
        </Button>
      </div>
    </Frame>
  )
}
