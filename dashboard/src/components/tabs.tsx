// Tabs that are pages: links, each with an address of its own.
import { Link } from '@tanstack/react-router'
import { useRow } from './navigation/use-row.ts'
import css from './tabs.module.css'

interface Tab {
  to: string
  label: string
  /** For the first tab of a page, whose address is a prefix of the others. */
  isExact?: boolean
}

export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const ref = useRow()
  return (
    <nav ref={ref} aria-label={label} className={css.tabs}>
      {tabs.map((tab) => (
        <Link
          key={tab.to}
          to={tab.to}
          activeOptions={{ exact: tab.isExact ?? false }}
          className={css.tab}
        >
          {tab.label}
        </Link>
      ))}
    </nav>
  )
}
