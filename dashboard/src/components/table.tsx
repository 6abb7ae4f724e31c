// A table. On a narrow screen a row has two lines: its first cell with what can be done, then the other cells.
import type { ReactNode } from 'react'
import css from './table.module.css'

/** Columns of buttons, which need no visible name. */
const DOINGS = new Set(['Change', 'More', 'Replay', 'Choose', 'Download'])

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
                {DOINGS.has(name) ? <span className="visually-hidden">{name}</span> : name}
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

interface CellProps {
  /** The name of its column. */
  of: string
  children?: ReactNode
  /** Holds what can be done with the row. */
  end?: boolean
  /** Says by itself what it is; a narrow screen shows the column's name of all others. */
  plain?: boolean
}

export function Cell({ of, children, end, plain }: CellProps) {
  return (
    <td data-of={of} data-plain={plain} className={end ? css.end : undefined}>
      {children}
    </td>
  )
}
