// Tabs that are pages: links, each with an address of its own.
import { Link, useLocation } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import css from './tabs.module.css'

interface Tab {
  to: string
  label: string
  /** For the first tab of a page, whose address is a prefix of the others. */
  isExact?: boolean
}

export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const ref = useRef<HTMLElement>(null)
  const { pathname } = useLocation()
  // biome-ignore lint/correctness/useExhaustiveDependencies: on a phone the row scrolls, and the open page must be in view
  useEffect(() => {
    const open = ref.current?.querySelector('[aria-current="page"]')
    open?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [pathname])
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
