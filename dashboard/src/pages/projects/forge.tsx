// The connection of a project to its forge: what the last check found, and the ways to make, repair and end it. Tokens
// are written here, never shown.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Secret, Select, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Facts, Section } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { say } from '../../components/toast.tsx'

const KINDS = [
  ['github', 'GitHub'],
  ['gitlab', 'GitLab'],
  ['gitea', 'Gitea'],
  ['forgejo', 'Forgejo'],
  ['bitbucket_cloud', 'Bitbucket Cloud'],
  ['bitbucket_server', 'Bitbucket Data Center'],
] as const

type Kind = (typeof KINDS)[number][0]
type Found = Awaited<ReturnType<typeof api.forge.ofProject.query>>

export const nameOfKind = (kind: string): string => KINDS.find(([one]) => one === kind)?.[1] ?? kind

interface Target {
  id: number
  organization_id: number
}

interface ForgeProps {
  project: Target
  reason: string | undefined
  /** The connection to propose. */
  first?: number | undefined
}

export function Forge({ project, reason, first }: ForgeProps) {
  const query = useQuery(trpc.forge.ofProject.queryOptions({ project_id: project.id }))
  return (
    <Section title="Forge">
      <p className="muted">
        With a token, Berth adds the deploy key and the webhook, reports statuses and comments, and
        checks once a day that everything still works.
      </p>
      <Loaded query={query} what="The connection" lines={2}>
        {(found) =>
          found.connected ? (
            <Connected project={project} found={found} reason={reason} />
          ) : (
            <ConnectForge project={project} reason={reason} first={first} />
          )
        }
      </Loaded>
    </Section>
  )
}

const WORDS = { ok: 'Works', broken: 'Broken', unchecked: 'Not checked yet', not_connected: '' }

function Connected({
  project,
  found,
  reason,
}: {
  project: Target
  found: Found
  reason: string | undefined
}) {
  const [isAsking, ask] = useState(false)
  const { connection } = found
  const again = () => {
    const chosen = { connection_id: connection?.id ?? 0 }
    return change(api.forge.connectProject.mutate({ project_id: project.id, with: chosen }))
  }
  return (
    <>
      <Facts
        of={[
          ['State', WORDS[found.status]],
          ['Repository', found.repository ?? ''],
          ['Forge', connection ? nameOfKind(connection.provider) : ''],
          ['API', connection?.api_url ?? ''],
          ['Account', connection?.account || 'Unknown'],
          ['Checked', found.checked_at ? <Time key="c" at={found.checked_at} /> : 'Never'],
        ]}
      />
      {found.status === 'broken' && (
        <Note kind="bad">
          Something no longer works. Repair it, or use a token with more permissions.
        </Note>
      )}
      <Checks found={found} />
      <div className="row">
        <ActButton
          reason={reason}
          act={() => change(api.forge.checkProject.mutate({ project_id: project.id }))}
          done="Checked."
        >
          Check now
        </ActButton>
        <ActButton reason={reason} act={again} done="Key and webhook were set up again.">
          Repair
        </ActButton>
        <Button reason={reason} onClick={() => ask(true)}>
          Disconnect
        </Button>
      </div>
      <details>
        <summary>Use another token</summary>
        <ConnectForge project={project} reason={reason} />
      </details>
      {isAsking && (
        <Ask
          title="Disconnect the forge?"
          submit="Disconnect"
          onClose={() => ask(false)}
          send={async () => {
            const done = api.forge.disconnectProject.mutate({ project_id: project.id })
            const { left } = await change(done)
            for (const { what, message } of left) {
              say(`The ${what.replace('_', ' ')} is still at the forge. ${message}`)
            }
          }}
          done="Disconnected."
        >
          <p>
            Berth removes the deploy key and the webhook at the forge. Pushes are no longer
            deployed, and a private repository cannot be read. The organization keeps the token.
          </p>
        </Ask>
      )}
    </>
  )
}

const LOOKS = { ok: 'accepted', failed: 'failed', unknown: 'unknown' }
const CHECKS: Record<string, string> = {
  token: 'Token',
  repository: 'Repository',
  deploy_key: 'Deploy key',
  webhook: 'Webhook',
  delivery: 'Delivery',
}

function Checks({ found }: { found: Found }) {
  return (
    <Table label="Checks of the forge" head={['What', 'State', 'Found']}>
      {found.checks.map((check) => (
        <Row key={check.name}>
          <Cell of="What" plain>
            {CHECKS[check.name]}
          </Cell>
          <Cell of="State" plain>
            <Status
              of={LOOKS[check.status]}
              {...(check.status === 'ok' ? { word: 'Works' } : {})}
            />
          </Cell>
          <Cell of="Found" plain>
            {check.message}
          </Cell>
        </Row>
      ))}
    </Table>
  )
}

/** A stored connection of the organization, or a new token. */
function ConnectForge({ project, reason, first }: ForgeProps) {
  const organization_id = project.organization_id
  const query = useQuery(trpc.forge.list.queryOptions({ organization_id }))
  const [chosen, choose] = useState<string>()
  return (
    <Loaded query={query} what="Connections" lines={1}>
      {({ connections }) => {
        const current = chosen ?? String(first ?? connections[0]?.id ?? '')
        return (
          <Form
            submit="Connect"
            reason={reason}
            label="Connect a forge"
            done="Connected."
            send={async (data) => {
              const asked = current === '' ? tokenOf(data) : { connection_id: Number(current) }
              const made = api.forge.connectProject.mutate({ project_id: project.id, with: asked })
              await change(made)
            }}
          >
            {connections.length > 0 && (
              <Select
                label="Connection"
                name="connection_id"
                value={current}
                onChange={(event) => choose(event.currentTarget.value)}
              >
                {connections.map((one) => (
                  <option key={one.id} value={one.id}>
                    {nameOfKind(one.provider)}, {one.account || one.api_url}
                  </option>
                ))}
                <option value="">A new token …</option>
              </Select>
            )}
            {current === '' && <TokenFields />}
          </Form>
        )
      }}
    </Loaded>
  )
}

export function TokenFields({ needsPlace = false }: { needsPlace?: boolean }) {
  return (
    <>
      <Select label="Kind of forge" name="provider" hint="Leave it open to let Berth find out.">
        <option value="">Detect</option>
        {KINDS.map(([kind, name]) => (
          <option key={kind} value={kind}>
            {name}
          </option>
        ))}
      </Select>
      <Text
        label="Address of the API"
        name="api_url"
        placeholder="https://git.example.com/api/v1"
        hint={
          needsPlace
            ? 'Leave it empty for GitHub, GitLab.com and Bitbucket Cloud if you choose the kind.'
            : "Only if it is not at the repository's own address: another name, port or path."
        }
        spellCheck={false}
      />
      <Secret
        label="Token"
        name="token"
        hint="Stored encrypted, never shown. The guide “Connect a forge” names the permissions."
        required
      />
    </>
  )
}

export const tokenOf = (data: FormData) => ({
  token: text(data, 'token').trim(),
  ...(text(data, 'provider') ? { provider: text(data, 'provider') as Kind } : {}),
  ...(text(data, 'api_url').trim() ? { api_url: text(data, 'api_url').trim() } : {}),
})
