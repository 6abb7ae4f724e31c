// A table whose rows become cards on a narrow screen; each cell then shows its column's name.
import type { ReactNode } from 'react'
import css from './table.module.css'

interface TableProps {
  label: string
  head: readonly string[]
  children: ReactNode
}

export function Table({ label, head, children }: TableProps) {
  return (
    <div className={css.frame}>
      <table className={css.table} aria-label={label}>
        <thead>
          <tr>
            {head.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

/** j and k move between elements with `data-row`; Enter follows the first link of one. */
export function Row({ children }: { children: ReactNode }) {
  return <tr data-row="">{children}</tr>
}

export function Cell({ of, children, end }: { of: string; children?: ReactNode; end?: boolean }) {
  return (
    <td data-of={of} className={end ? css.end : undefined}>
      {children}
    </td>
  )
}
