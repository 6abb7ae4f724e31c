// What waits for the user, across projects.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { Button } from '../../../components/button.tsx'
import { Section } from '../../../components/page.tsx'
import { Status } from '../../../components/status.tsx'
import css from './projects.module.css'
import { type Known, listWaiting } from './watched.ts'

const SHOWN = 6

export function WaitsForYou(known: Known) {
  const [isOpen, open] = useState(false)
  const items = listWaiting(known)
  if (items.length === 0) return null
  const shown = isOpen ? items : items.slice(0, SHOWN)
  return (
    <Section title="Needs attention" isBare>
      <ul className={css.items}>
        {shown.map((item) => (
          <li key={item.key}>
            <Link to={item.to} className={css.item}>
              <span className={css.what}>{item.what}</span>
              <span className={css.why}>
                <Status of={item.state} word={item.why} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {items.length > shown.length && (
        <div className="row">
          <Button small onClick={() => open(true)}>
            Show all {items.length}
          </Button>
        </div>
      )}
    </Section>
  )
}
