// What runs for a project beside its deployments: the use of its servers, scheduled actions and backups, each by
// environment. The pages of the environments change them.
import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { trpc } from '../../../api.ts'
import { Section } from '../../../components/page.tsx'
import { Empty, Loaded } from '../../../components/states.tsx'
import { Status } from '../../../components/status.tsx'
import { Cell, Row, Table } from '../../../components/table.tsx'
import { Moment, Time } from '../../../components/time.tsx'
import { type Environment, type Project, useEnvironments } from '../../../data.ts'
import { bytes } from '../../../format.ts'

const EnvironmentLink = ({ environment: e, tab }: { environment: Environment; tab: string }) => (
  <Link to={`/environments/${e.id}${tab}`}>{e.identifier}</Link>
)

const none = (
  <Empty title="No environments yet">
    <p>Open a pull request, or create an environment for a branch.</p>
  </Empty>
)

/** The measurements of the servers, as far as they belong to this project. */
export function UsageOf({ project: p }: { project: Project }) {
  const list = useEnvironments(p.id)
  const measured = useQueries({
    queries: p.servers.map((s) => ({
      ...trpc.server.usage.queryOptions({ server_id: s.id, span: 'hour' }),
      retry: false,
    })),
  })
  const used = new Map(
    measured.flatMap(({ data }) => data?.environments ?? []).map((e) => [e.id, e]),
  )
  return (
    <Section title="Usage" isBare>
      <p className="muted">Measured once a minute. The page of an environment shows its history.</p>
      <Loaded query={list} what="Environments">
        {({ environments }) =>
          environments.length === 0 ? (
            none
          ) : (
            <Table label="Usage" head={['Environment', 'Server', 'Processors', 'Memory', 'Disk']}>
              {environments.map((e) => {
                const now = used.get(e.id)
                return (
                  <Row key={e.id}>
                    <Cell of="Environment">
                      <EnvironmentLink environment={e} tab="" />
                    </Cell>
                    <Cell of="Server" plain>
                      <Link to="/servers/$id" params={{ id: String(e.server.id) }}>
                        {e.server.name}
                      </Link>
                    </Cell>
                    <Cell of="Processors">
                      {now ? `${now.cpu_percent.toFixed(1)} %` : 'not measured'}
                    </Cell>
                    <Cell of="Memory">{now ? bytes(now.memory_bytes) : ''}</Cell>
                    <Cell of="Disk">{now ? bytes(now.disk_bytes) : ''}</Cell>
                  </Row>
                )
              })}
            </Table>
          )
        }
      </Loaded>
    </Section>
  )
}

export function SchedulesOf({ project: p }: { project: Project }) {
  const list = useEnvironments(p.id)
  const environments = list.data?.environments ?? []
  const actions = useQueries({
    queries: environments.map((e) => trpc.action.list.queryOptions({ environment_id: e.id })),
  })
  const isLoading = actions.some(({ isPending }) => isPending)
  const scheduled = environments.flatMap((e, n) =>
    (actions[n]?.data?.actions ?? []).flatMap((action) =>
      action.schedule ? [{ e, action, schedule: action.schedule }] : [],
    ),
  )
  return (
    <Section title="Schedules" isBare>
      <Loaded query={{ ...list, data: isLoading ? undefined : list.data }} what="Schedules">
        {() =>
          scheduled.length === 0 ? (
            <Empty title="No schedules yet">
              <p>
                Give an action of .service.yml a <code>schedule</code>, then deploy. See{' '}
                <Link to="/docs/service-file">the reference</Link>.
              </p>
            </Empty>
          ) : (
            <Table label="Schedules" head={['Environment', 'Action', 'Schedule', 'Next run']}>
              {scheduled.map(({ e, action, schedule: s }) => (
                <Row key={`${e.id} ${action.name}`}>
                  <Cell of="Environment">
                    <EnvironmentLink environment={e} tab="/actions" />
                  </Cell>
                  <Cell of="Action" plain>
                    {action.title}
                  </Cell>
                  <Cell of="Schedule" plain>
                    <span>
                      <code>{s.cron}</code> <span className="muted">{s.timezone}</span>
                    </span>
                  </Cell>
                  <Cell of="Next run">
                    {s.paused_reason !== null ? (
                      <span className="muted">Paused: {s.paused_reason}</span>
                    ) : s.next_run_at ? (
                      <Moment at={s.next_run_at} />
                    ) : (
                      'none'
                    )}
                  </Cell>
                </Row>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Section>
  )
}

export function BackupsOf({ project: p }: { project: Project }) {
  const list = useEnvironments(p.id)
  return (
    <Section
      title="Backups"
      isBare
      actions={<Link to="/org/settings">Storage of the organization</Link>}
    >
      <Loaded query={list} what="Environments">
        {({ environments }) =>
          environments.length === 0 ? (
            none
          ) : (
            <Table label="Backups" head={['Environment', 'Newest backup', 'State']}>
              {environments.map((e) => (
                <BackupRow key={e.id} environment={e} />
              ))}
            </Table>
          )
        }
      </Loaded>
    </Section>
  )
}

const LOOKS = {
  creating: { of: 'updating', word: 'Creating' },
  complete: { of: 'succeeded', word: 'Complete' },
  failed: { of: 'failed', word: 'Failed' },
} as const

function BackupRow({ environment: e }: { environment: Environment }) {
  const query = useQuery(trpc.backup.list.queryOptions({ environment_id: e.id }))
  const [newest] = query.data?.backups ?? []
  return (
    <Row>
      <Cell of="Environment">
        <EnvironmentLink environment={e} tab="/backups" />
      </Cell>
      <Cell of="Newest backup">
        {newest ? <Time at={newest.created_at} /> : query.isPending ? '' : 'never'}
      </Cell>
      <Cell of="State" plain>
        {newest && <Status {...LOOKS[newest.status]} />}
      </Cell>
    </Row>
  )
}
