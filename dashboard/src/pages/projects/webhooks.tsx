// The webhooks that the forge sent, the rule that decided on each, and the secret that both sides share.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { CopyField } from '../../components/copy.tsx'
import { More } from '../../components/more.tsx'
import { Facts, Section } from '../../components/page.tsx'
import { Empty, Loaded, Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Moment, Time } from '../../components/time.tsx'
import type { Project } from '../../data.ts'
import { short } from '../../format.ts'
import { usePermission } from '../../organization.ts'
import { ProjectFrame } from './frame.tsx'

const SIGNED = {
  current: 'signed with the secret',
  previous: 'signed with the old secret',
  legacy: "signed with the installation's secret",
} as const

export function ProjectWebhooks() {
  return (
    <ProjectFrame tab="Webhooks">
      {(p) => (
        <>
          <Webhook project={p} />
          <Deliveries id={p.id} />
          <Refused id={p.id} />
        </>
      )}
    </ProjectFrame>
  )
}

function Webhook({ project: p }: { project: Project }) {
  const mayWrite = usePermission('project:write')
  const w = p.webhook
  return (
    <Section title="Webhook" actions={mayWrite && <Regenerate project={p} />}>
      <CopyField label="webhook address" text={w.url} />
      <Facts
        of={[
          [
            'Secret',
            w.secret_source === 'project' ? "The project's own" : "The installation's, from before",
          ],
          [
            'Created',
            w.secret_rotated_at ? <Time key="m" at={w.secret_rotated_at} /> : 'With the project',
          ],
          [
            'Last delivery',
            w.last_delivery_at ? (
              <span key="l">
                <Time at={w.last_delivery_at} />
                {w.last_delivery_secret && `, ${SIGNED[w.last_delivery_secret]}`}
              </span>
            ) : (
              'None yet'
            ),
          ],
        ]}
      />
      {w.previous_accepted_until && (
        <Note kind="warn">
          <div className="row">
            <span>
              The previous secret is accepted until <Moment at={w.previous_accepted_until} />.
            </span>
            {mayWrite && (
              <ActButton
                small
                act={() => change(api.project.endPreviousSecret.mutate({ project_id: p.id }))}
                done="The previous secret is refused now."
              >
                Refuse now
              </ActButton>
            )}
          </div>
        </Note>
      )}
      <details>
        <summary>Set it up at the forge</summary>
        <HowTo />
      </details>
    </Section>
  )
}

const HOSTS = [
  [
    'GitHub',
    'Settings › Webhooks › Add. Content type application/json; events: pushes, pull requests.',
  ],
  [
    'GitLab',
    'Settings › Webhooks. Trigger: push events, merge request events; the secret as "Secret token".',
  ],
  [
    'Gitea, Forgejo',
    'Settings › Webhooks › Add. Events: push, pull request, pull request synchronized.',
  ],
  [
    'Bitbucket Cloud',
    'Repository settings › Webhooks. Triggers: push; pull request created, updated, merged, declined.',
  ],
  [
    'Bitbucket Data Center',
    'Repository settings › Webhooks. Events: push; pull request opened, source branch updated, merged, declined, deleted.',
  ],
] as const

function HowTo() {
  return <Facts of={HOSTS} />
}

function Regenerate({ project }: { project: Project }) {
  const [isAsking, ask] = useState(false)
  const navigate = useNavigate()
  return (
    <>
      <Button onClick={() => ask(true)}>Regenerate secret</Button>
      {isAsking && (
        <Ask
          title="Regenerate the secret?"
          submit="Regenerate"
          kind="main"
          onClose={() => ask(false)}
          send={async () => {
            const made = await change(
              api.project.regenerateSecret.mutate({ project_id: project.id }),
            )
            if (made.secret_id) {
              await navigate({ to: '/secrets/$id', params: { id: made.secret_id } })
            }
          }}
        >
          <p>
            The old one is accepted for a day, or until the first delivery signed with the new one.
          </p>
        </Ask>
      )}
    </>
  )
}

function Deliveries({ id }: { id: number }) {
  const mayWrite = usePermission('project:write')
  const query = useQuery({
    ...trpc.delivery.list.queryOptions({ project_id: id, limit: 30 }),
    select: (page) => ({ items: page.deliveries, next: page.next }),
  })
  const [shown, show] = useState<number>()
  return (
    <Section title="Deliveries" isBare>
      <More
        what="Deliveries"
        query={query}
        keyOf={(d) => d.id}
        older={async (cursor) => {
          const page = await api.delivery.list.query({ project_id: id, limit: 30, cursor })
          return { items: page.deliveries, next: page.next }
        }}
        empty={
          <Empty title="No deliveries yet">
            <p>
              Add the webhook at the forge, then push. Each delivery appears here with the rule that
              decided.
            </p>
          </Empty>
        }
      >
        {(list) => (
          <Table
            label="Deliveries"
            head={['When', 'Event', 'Ref', 'Outcome', 'Rule', 'Tasks', 'More']}
          >
            {list.map((d) => (
              <Row key={d.id}>
                <Cell of="When">
                  <Time at={d.received_at} />
                </Cell>
                <Cell of="Event" plain>
                  {d.event}
                  {d.replay_of !== null && <span className="muted small"> (replay)</span>}
                </Cell>
                <Cell of="Ref" plain>
                  <span>
                    {d.pull_request_number !== null ? `#${d.pull_request_number}` : d.branch}{' '}
                    <code>{short(d.sha)}</code>
                  </span>
                </Cell>
                <Cell of="Outcome" plain>
                  <Status of={d.outcome} />
                </Cell>
                <Cell of="Rule" plain>
                  <div className="stack-small">
                    <code>{d.rule}</code>
                    <span className="muted small">{d.reason ?? d.error}</span>
                  </div>
                </Cell>
                <Cell of="Tasks">
                  {d.task_ids.map((task) => (
                    <Link key={task} to="/tasks/$id" params={{ id: String(task) }}>
                      {task}{' '}
                    </Link>
                  ))}
                </Cell>
                <Cell of="More" end>
                  <div className="row">
                    <Button
                      small
                      aria-expanded={shown === d.id}
                      onClick={() => show(shown === d.id ? undefined : d.id)}
                    >
                      Details
                    </Button>
                    {mayWrite && (
                      <ActButton
                        small
                        act={() => change(api.delivery.replay.mutate({ delivery_id: d.id }))}
                        done="Replayed."
                      >
                        Replay
                      </ActButton>
                    )}
                  </div>
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </More>
      {shown !== undefined && <Details id={shown} />}
    </Section>
  )
}

function Details({ id }: { id: number }) {
  const query = useQuery(trpc.delivery.get.queryOptions({ delivery_id: id }))
  return (
    <Section title={`Delivery ${id}`}>
      <Loaded query={query} what="The delivery">
        {(d) => (
          <>
            <Facts
              of={[
                ['Id at the forge', d.delivery_id],
                ['Answered', d.response_status],
                ['Body', `${d.body_bytes} bytes`],
                ['By', d.actor ?? 'Unknown'],
              ]}
            />
            {d.results.length > 0 && (
              <ul className="stack-small">
                {d.results.map((r) => (
                  <li key={`${r.environment_id} ${r.rule}`}>
                    {r.identifier ?? 'Project'}: {r.reason} <code>{r.rule}</code>
                  </li>
                ))}
              </ul>
            )}
            <details>
              <summary>Headers</summary>
              <pre>
                {Object.entries(d.headers)
                  .map(([name, value]) => `${name}: ${value}`)
                  .join('\n')}
              </pre>
            </details>
            {d.body !== null && (
              <details>
                <summary>Body</summary>
                <pre>{d.body}</pre>
              </details>
            )}
          </>
        )}
      </Loaded>
    </Section>
  )
}

function Refused({ id }: { id: number }) {
  const list = useQuery(trpc.delivery.refused.queryOptions({ project_id: id })).data?.refused ?? []
  if (list.length === 0) return null
  return (
    <Section title="Refused">
      <p className="muted">Their signature did not match, so Berth ignored them.</p>
      <ul className="stack-small">
        {list.map((r) => (
          <li key={`${r.at} ${r.address}`}>
            <Time at={r.at} /> from {r.address}: {r.reason}
          </li>
        ))}
      </ul>
    </Section>
  )
}
