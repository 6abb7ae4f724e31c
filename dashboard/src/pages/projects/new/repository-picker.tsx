// Chooses a repository from a connected forge, page by page. Choosing another forge or typing a search asks again.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { api, trpc } from '../../../api.ts'
import { useAct } from '../../../components/act.tsx'
import { Button } from '../../../components/button.tsx'
import { Select, Text } from '../../../components/forms/field.tsx'
import { FormError } from '../../../components/forms/form.tsx'
import { Cell, Row, Table } from '../../../components/table.tsx'
import { nameOfKind } from '../forge.tsx'
import css from './new.module.css'

type Repository = Awaited<ReturnType<typeof api.forge.repositories.mutate>>['repositories'][number]

export interface Picked {
  connectionId: number
  url: string
  /** acme/shop */
  fullName: string
  name: string
  branch: string
}

interface Shown {
  search: string
  list: Repository[]
  next: string | null
}

/** Without a connection, says how to get one. */
export function RepositoryPicker({
  organizationId,
  picked,
  onPick,
}: {
  organizationId: number
  picked: string | undefined
  onPick(picked: Picked): void
}) {
  const organization_id = organizationId
  const { data } = useQuery(trpc.forge.list.queryOptions({ organization_id }))
  const [chosen, choose] = useState<number>()
  const [search, setSearch] = useState('')
  const [shown, show] = useState<Shown>()
  const { isBusy, problem, run } = useAct()
  const connections = data?.connections ?? []
  const connectionId = chosen ?? connections[0]?.id
  // biome-ignore lint/correctness/useExhaustiveDependencies: lists once for each forge; typing does not ask by itself
  useEffect(() => {
    if (connectionId !== undefined) void load(null, [])
  }, [connectionId])
  const load = (from: string | null, before: Repository[]) =>
    run(async () => {
      if (connectionId === undefined) return
      const asked = { connection_id: connectionId, search: search.trim(), from }
      const page = await api.forge.repositories.mutate(asked)
      show({ search: asked.search, list: [...before, ...page.repositories], next: page.next })
    })
  if (connectionId === undefined) {
    return (
      data && (
        <p className="muted">
          No forge is connected. <Link to="/org/settings">Connect one</Link> to pick a repository
          and have its key and webhook installed, or enter the repository below.
        </p>
      )
    )
  }
  return (
    <fieldset className="stack-small" aria-label="Choose a repository">
      <legend>Choose a repository</legend>
      <div className={css.search}>
        <Select
          label="Forge"
          value={String(connectionId)}
          onChange={(event) => {
            choose(Number(event.currentTarget.value))
            show(undefined)
          }}
        >
          {connections.map((one) => (
            <option key={one.id} value={one.id}>
              {nameOfKind(one.provider)}, {one.account || one.api_url}
            </option>
          ))}
        </Select>
        <Text
          label="Search"
          value={search}
          maxLength={200}
          placeholder="Part of the name"
          onChange={(event) => setSearch(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return
            event.preventDefault() // the form around it must not be sent
            void load(null, [])
          }}
        />
        <Button busy={isBusy} onClick={() => void load(null, [])}>
          Search
        </Button>
      </div>
      {problem && <FormError problem={problem} />}
      <div role="status">
        {shown?.list.length === 0 && <p>No repository matches.</p>}
        {shown && shown.list.length > 0 && (
          <Table label="Repositories" head={['Repository', 'Project', 'Choose']}>
            {shown.list.map((one) => (
              <Row key={one.full_name}>
                <Cell of="Repository">
                  <span>
                    {one.full_name}
                    {one.description && <br />}
                    <span className="muted small">{one.description}</span>
                  </span>
                </Cell>
                <Cell of="Project" plain>
                  {one.project_ids.length > 0 ? 'Has one already' : ''}
                </Cell>
                <Cell of="Choose" end>
                  <Button
                    small
                    aria-label={`${picked === one.full_name ? 'Chosen' : 'Choose'} ${one.full_name}`}
                    onClick={() => onPick(pick(one, connectionId))}
                  >
                    {picked === one.full_name ? 'Chosen' : 'Choose'}
                  </Button>
                </Cell>
              </Row>
            ))}
          </Table>
        )}
        {shown?.next && (
          <Button busy={isBusy} onClick={() => void load(shown.next, shown.list)}>
            More
          </Button>
        )}
      </div>
    </fieldset>
  )
}

const pick = (one: Repository, connectionId: number): Picked => ({
  connectionId,
  url: one.ssh_url || one.https_url,
  fullName: one.full_name,
  name: one.full_name.split('/').at(-1) ?? '',
  branch: one.default_branch ?? 'main',
})
