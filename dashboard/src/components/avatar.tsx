// A person as initials; no picture is loaded from elsewhere. The name beside it, or the label of its button, is text.
import { initials } from '../format.ts'
import css from './avatar.module.css'

export function Avatar({ name, small = false }: { name: string; small?: boolean }) {
  return (
    <span className={`${css.avatar} ${small ? css.small : ''}`} aria-hidden="true">
      {initials(name)}
    </span>
  )
}
