// Navigation beside the content of a page with many parts, such as settings. On a phone it is a row above it.
import { Link, useLocation } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import css from './side-nav.module.css'
import { useRow } from './use-row.ts'

export interface SideLink {
  /** The address of a page, or "#name" for a part of this one. */
  to: string
  label: string
  /** For an address that is a prefix of the others. */
  isExact?: boolean
  /** Starts a group with this title. */
  group?: string
  /** Beside the label: a count or a mark. */
  mark?: ReactNode
}

interface SideNavProps {
  label: string
  links: readonly SideLink[]
  /** What is navigated; it is shown beside the links. */
  children: ReactNode
}

export function SideNav({ label, links, children }: SideNavProps) {
  const { hash } = useLocation()
  return (
    <div className={css.layout}>
      <nav ref={useRow()} aria-label={label} className={css.nav}>
        {links.map((link) => (
          <SideItem key={link.to} link={link} hash={hash} />
        ))}
      </nav>
      <div className={css.content}>{children}</div>
    </div>
  )
}

function SideItem({ link, hash }: { link: SideLink; hash: string }) {
  const face = (
    <>
      <span>{link.label}</span>
      {link.mark && <span className={css.mark}>{link.mark}</span>}
    </>
  )
  return (
    <>
      {link.group && <span className={css.group}>{link.group}</span>}
      {link.to.startsWith('#') ? (
        <a
          href={link.to}
          className={css.link}
          aria-current={`#${hash}` === link.to ? 'location' : undefined}
        >
          {face}
        </a>
      ) : (
        <Link
          to={link.to}
          className={css.link}
          activeOptions={{ exact: link.isExact ?? false, includeSearch: false }}
        >
          {face}
        </Link>
      )}
    </>
  )
}
