// The servers of the organization, and how to add one: a command to run on it, and a wait that ends by itself.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Loaded } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { type Server, useServers } from '../../data.ts'
import { bytes, count } from '../../format.ts'
import { useOrganization, usePermission } from '../../organization.ts'
import { AgentUpgrades, ServerUpdate } from './agent-upgrades.tsx'
import { CannotJoin, type JoinProblems } from './join-command.tsx'

export function Servers() {
  const servers = useServers()
  const mayWrite = usePermission('server:write')
  const { add } = useSearch({ strict: false }) as { add?: string | boolean }
  const navigate = useNavigate()
  const isAdding = String(add) === 'true'
  return (
    <Page
      title="Servers"
      actions={
        mayWrite && (
          <Button
            kind="main"
            onClick={() => void navigate({ to: '/servers', search: { add: 'true' } })}
          >
            <Icon name="plus" /> Add server
          </Button>
        )
      }
    >
      <Loaded query={servers} what="Servers">
        {({ servers: list }) =>
          list.length === 0 ? (
            <Empty title="No servers yet">
              <p>
                A server is a Linux machine of yours. Its agent connects to Berth, so it needs no
                open port.
              </p>
              <p>
                <code>berth server add fra-1 --hostname fra-1.example.com</code>
              </p>
            </Empty>
          ) : (
            <>
              <AgentUpgrades servers={list} />
              <Table
                label="Servers"
                head={['Server', 'State', 'Agent', 'Machine', 'Disk', 'Environments']}
              >
                {list.map((s) => (
                  <ServerRow key={s.id} server={s} />
                ))}
              </Table>
            </>
          )
        }
      </Loaded>
      {isAdding && <AddServer onClose={() => void navigate({ to: '/servers', search: {} })} />}
    </Page>
  )
}

function ServerRow({ server: s }: { server: Server }) {
  return (
    <Row>
      <Cell of="Server" plain>
        <div className="stack-small">
          <Link to="/servers/$id" params={{ id: String(s.id) }}>
            {s.name}
          </Link>
          <span className="muted small">{s.hostname}</span>
          {s.shared_by && <span className="muted small">shared by {s.shared_by.name}</span>}
        </div>
      </Cell>
      <Cell of="State" plain>
        <ServerState server={s} />
      </Cell>
      <Cell of="Agent">
        <AgentVersion server={s} />
      </Cell>
      <Cell of="Machine" plain>
        {s.facts ? `${count(s.facts.cpus, 'CPU')}, ${bytes(s.facts.memory_bytes)}` : ''}
      </Cell>
      <Cell of="Disk" plain>
        {s.facts ? `${bytes(s.facts.disk_free_bytes)} of ${bytes(s.facts.disk_bytes)} free` : ''}
      </Cell>
      <Cell of="Environments">{s.environment_count}</Cell>
    </Row>
  )
}

export function ServerState({ server: s }: { server: Server }) {
  return (
    <span className="row">
      <Status of={s.status} {...(s.status === 'pending' ? { word: 'Not joined' } : {})} />
      {s.status === 'offline' && s.last_seen_at && (
        <span className="muted small">
          since <Time at={s.last_seen_at} />
        </span>
      )}
      {s.paused && (
        <span className="muted small">paused{s.paused_by && ` by ${s.paused_by.name}`}</span>
      )}
    </span>
  )
}

export function AgentVersion({ server: s, word = '' }: { server: Server; word?: string }) {
  if (!s.agent_version) return null
  return (
    <span className="row">
      {word}
      {s.agent_version}
      {s.agent_outdated && <Status of="degraded" word="outdated" />}
      <ServerUpdate server={s} />
    </span>
  )
}

function AddServer({ onClose }: { onClose(): void }) {
  const organization = useOrganization()
  const navigate = useNavigate()
  const [problems, setProblems] = useState<JoinProblems>([])
  return (
    <Dialog title="Add a server" onClose={onClose}>
      <Form
        submit="Add server"
        send={async (data) => {
          const hostname = text(data, 'hostname').trim()
          setProblems([])
          const check = await api.server.joinCheck.query({ hostname })
          setProblems(check.problems)
          if (check.problems.length > 0) return
          const asked = { name: text(data, 'name').trim(), hostname }
          const context = { organization: organization?.id }
          const server = await change(api.server.create.mutate(asked, { context }))
          const { join } = await api.server.joinToken.mutate({ server_id: server.id })
          await navigate({
            to: '/servers/$id',
            params: { id: String(server.id) },
            search: join?.secret_id ? { join: join.secret_id } : {},
          })
        }}
      >
        <Text label="Name" name="name" placeholder="fra-1" maxLength={64} required />
        <Text
          label="Host name or address"
          name="hostname"
          placeholder="fra-1.example.com"
          hint="Where people and berth ssh reach it."
          spellCheck={false}
          required
        />
        <CannotJoin problems={problems} />
      </Form>
    </Dialog>
  )
}
