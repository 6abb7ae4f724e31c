// Who changed what, newest first.
import { useQuery } from '@tanstack/react-query'
import { api, trpc } from '../../api.ts'
import { More } from '../../components/more.tsx'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { short } from '../../format.ts'
import { type Membership, useOrganization, usePermission } from '../../organization.ts'
import css from './audit.module.css'

type Entry = Awaited<ReturnType<typeof api.audit.list.query>>['entries'][number]

export function Audit() {
  const organization = useOrganization()
  const mayRead = usePermission('audit:read')
  return (
    <Page title="Audit log" facts={organization && <span>{organization.name}</span>}>
      {organization && mayRead ? (
        <List organization={organization} />
      ) : (
        <Empty title="Your role does not let you read the audit log">
          <p>Ask an owner or an administrator of the organization.</p>
        </Empty>
      )}
    </Page>
  )
}

function List({ organization }: { organization: Membership }) {
  const asked = { organization_id: organization.id, limit: 50 }
  const query = useQuery({
    ...trpc.audit.list.queryOptions(asked),
    select: (page) => ({ items: page.entries, next: page.next }),
  })
  return (
    <More
      what="The audit log"
      query={query}
      keyOf={(e) => e.id}
      older={async (cursor) => {
        const page = await api.audit.list.query({ ...asked, cursor })
        return { items: page.entries, next: page.next }
      }}
      empty={<Empty title="No changes yet" />}
    >
      {(entries) => <AuditTable entries={entries} />}
    </More>
  )
}

/** A readable value: lists with commas, old and new with an arrow, commits shortened. */
function wordsOf(value: unknown): string {
  if (typeof value === 'string') return /^[0-9a-f]{40,}$/.test(value) ? short(value) : value
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.length > 0 ? value.map(wordsOf).join(', ') : 'none'
  if (value === null || typeof value !== 'object') return value === null ? 'none' : String(value)
  if ('from' in value && 'to' in value) return `${wordsOf(value.from)} → ${wordsOf(value.to)}`
  return pairs(value)
}

const pairs = (of: object): string =>
  Object.entries(of)
    .map(([name, value]) => (name === 'changes' ? wordsOf(value) : `${name}: ${wordsOf(value)}`))
    .join('; ')

/** Names and keys only, without values. */
function changesOf(entry: Entry): string {
  const text = pairs(entry.changes)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

export function AuditTable({ entries }: { entries: readonly Entry[] }) {
  return (
    <Table label="Audit log" head={['What', 'Thing', 'Who', 'Changes', 'From', 'When']}>
      {entries.map((e) => (
        <Row key={e.id}>
          <Cell of="What" plain>
            <code className={css.verb}>{e.verb}</code>
          </Cell>
          <Cell of="Thing" plain>
            {e.subject.type} {e.subject.name ?? e.subject.id}
          </Cell>
          <Cell of="Who" plain>
            {e.actor.name ?? e.actor.type}
          </Cell>
          <Cell of="Changes" plain>
            <span className="muted small">{changesOf(e)}</span>
          </Cell>
          <Cell of="From" plain>
            {e.address && <span className="muted small">{e.address}</span>}
          </Cell>
          <Cell of="When" plain>
            <Time at={e.at} />
          </Cell>
        </Row>
      ))}
    </Table>
  )
}
