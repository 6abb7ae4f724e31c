// One server: its state, what it offers, how full it is, its certificates, and its removal.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Check, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, text } from '../../components/forms/form.tsx'
import { LimitsForm } from '../../components/forms/limits-form.tsx'
import { Meter } from '../../components/meter.tsx'
import { Facts, Page, Section } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import type { Server } from '../../data.ts'
import { bytes, count } from '../../format.ts'
import { useOrganizationOf, usePermission } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'
import { BuildSettings } from './build-settings.tsx'
import { JoinCommand } from './join-command.tsx'
import { ServerCharts } from './server-charts.tsx'
import { AgentVersion, ServerState } from './servers.tsx'
import { Sharing } from './sharing.tsx'

export function ServerPage() {
  const id = useId()
  const server = useQuery(trpc.server.get.queryOptions({ server_id: id }))
  // a server of another organization is looked at from the own one
  useOrganizationOf(server.data?.shared_by ? undefined : server.data?.organization_id)
  return (
    <Loaded query={server} what="The server" missing={<NotFound />}>
      {(s) => (
        <Page
          title={s.name}
          trail={<Link to="/servers">Servers</Link>}
          facts={
            <>
              <ServerState server={s} />
              <span>{s.hostname}</span>
              <AgentVersion server={s} word="Agent " />
              <span>{count(s.environment_count, 'environment')}</span>
              {s.shared_by && <span>Shared by {s.shared_by.name}</span>}
            </>
          }
        >
          {s.shared_by ? <Guest server={s} /> : <Own server={s} />}
        </Page>
      )}
    </Loaded>
  )
}

/** Settings, load and parts are the owner's. */
function Guest({ server: s }: { server: Server }) {
  return (
    <Section title="Shared server">
      <Note>
        {s.shared_by?.name} runs this server and lets your organization place environments on it.
        Administrators of that machine can read the data of your environments.
      </Note>
      <Facts of={[['Recipes', s.recipes.join(', ') || 'none']]} />
    </Section>
  )
}

function Own({ server: s }: { server: Server }) {
  return (
    <>
      <Joining server={s} />
      {s.facts && <Machine server={s} facts={s.facts} />}
      <ServerCharts id={s.id} />
      <Parts server={s} />
      <Settings
        key={`${s.name} ${s.hostname} ${s.ssh_port} ${s.shell_enabled} ${s.paused}`}
        server={s}
      />
      <BuildSettings key={JSON.stringify(s.settings)} server={s} />
      <Limits key={JSON.stringify(s.limits)} server={s} />
      <Sharing server={s} />
      <Certificates id={s.id} />
      <Danger server={s} />
    </>
  )
}

function Joining({ server: s }: { server: Server }) {
  const mayWrite = usePermission('server:write')
  const [join, setJoin] = useState<{ command: string; expires_at: string }>()
  if (!mayWrite) return null
  const isNew = s.joined_at === null
  if (!isNew && s.status === 'online' && !join) return null
  return (
    <Section title={isNew ? 'Join' : 'Join again'}>
      {join ? (
        <JoinCommand id={s.id} command={join.command} until={join.expires_at} />
      ) : (
        <>
          <p className="muted">
            {isNew
              ? 'The agent has not joined yet. The command holds a token that works once, for 15 minutes.'
              : 'Use this after you reinstalled the server. The previous agent loses access.'}
          </p>
          <div className="row">
            <ActButton
              kind={isNew ? 'main' : 'plain'}
              act={async () =>
                setJoin(await api.server.joinToken.mutate({ server_id: s.id, rejoin: !isNew }))
              }
            >
              Show the join command
            </ActButton>
          </div>
        </>
      )}
    </Section>
  )
}

const TRUST = {
  confirmed: 'in force',
  told: 'not confirmed by the server yet',
  refused: 'not in force',
  away: 'as of its last connection',
} as const

function Machine({ server: s, facts: f }: { server: Server; facts: NonNullable<Server['facts']> }) {
  const used = f.disk_bytes - f.disk_free_bytes
  return (
    <Section title="Machine">
      <Facts
        of={[
          ['System', `${f.os} (${f.arch})`],
          ['Processors', f.cpus],
          ['Memory', bytes(f.memory_bytes)],
          ['Docker', f.docker_version ?? 'not installed'],
          ['Recipes', s.recipes.join(', ') || 'none'],
          ['Joined', s.joined_at ? <Time key="j" at={s.joined_at} /> : 'never'],
          ['SSH keys and revocations', s.trust ? TRUST[s.trust.state] : 'none'],
        ]}
      />
      {s.trust?.state === 'refused' && (
        <Note kind="warn">
          The newest SSH keys and revocations are not in force on this server: {s.trust.reason}{' '}
          Certificates that were revoked since may still open it.
        </Note>
      )}
      {/* after the first measurement the charts include the disk */}
      {!s.usage && (
        <Meter
          label="Disk"
          part={f.disk_bytes > 0 ? used / f.disk_bytes : 0}
          text={`${bytes(f.disk_free_bytes)} of ${bytes(f.disk_bytes)} free`}
        />
      )}
    </Section>
  )
}

function Parts({ server: s }: { server: Server }) {
  if (s.parts.length === 0) return null
  return (
    <Section title="Parts" isBare>
      <Table label="Parts" head={['Part', 'Version', 'State']}>
        {s.parts.map((part) => (
          <Row key={part.name}>
            <Cell of="Part">{part.name}</Cell>
            <Cell of="Version">{part.version ?? ''}</Cell>
            <Cell of="State">
              <div className="stack-small">
                <Status
                  of={part.reason ? 'missing' : 'active'}
                  word={part.reason ? (part.version ? 'Look' : 'Not found') : 'Installed'}
                  {...(part.reason ? { tone: 'warn' as const } : {})}
                />
                {part.reason && <span className="muted small">{part.reason}</span>}
              </div>
            </Cell>
          </Row>
        ))}
      </Table>
    </Section>
  )
}

function Settings({ server: s }: { server: Server }) {
  const reason = usePermission('server:write')
    ? undefined
    : 'Your role does not let you change servers.'
  return (
    <Section title="Settings">
      <Form
        submit="Save"
        done="Saved."
        reason={reason}
        label="Settings"
        send={(data) =>
          change(
            api.server.update.mutate({
              server_id: s.id,
              name: text(data, 'name').trim(),
              hostname: text(data, 'hostname').trim(),
              ssh_port: Number(text(data, 'ssh_port')),
              shell_enabled: isChecked(data, 'shell_enabled'),
              paused: isChecked(data, 'paused'),
            }),
          )
        }
      >
        <Text label="Name" name="name" defaultValue={s.name} maxLength={64} required />
        <Text label="Host name or address" name="hostname" defaultValue={s.hostname} required />
        <Text
          label="SSH port"
          name="ssh_port"
          type="number"
          min={1}
          max={65535}
          defaultValue={s.ssh_port}
        />
        <Check
          label="Paused"
          name="paused"
          defaultChecked={s.paused}
          hint="Takes no new tasks; what runs keeps running."
        />
        <Check
          label="Certificates for the whole server"
          name="shell_enabled"
          defaultChecked={s.shell_enabled}
          hint="The server must allow them too. A shell in one environment does not need this."
        />
      </Form>
    </Section>
  )
}

function Limits({ server: s }: { server: Server }) {
  const reason = usePermission('server:write')
    ? undefined
    : 'Your role does not let you change servers.'
  return (
    <LimitsForm
      now={s.limits}
      usual={s.default_limits}
      hint="What one environment may use of this server. A project may have lower limits."
      reason={reason}
      send={(limits) => change(api.server.update.mutate({ server_id: s.id, limits }))}
    />
  )
}

function Certificates({ id }: { id: number }) {
  const maySee = usePermission('audit:read')
  const mayWrite = usePermission('server:write')
  const query = useQuery({
    ...trpc.server.certificates.queryOptions({ server_id: id, limit: 20 }),
    enabled: maySee,
  })
  if (!maySee) return null
  return (
    <Section title="SSH certificates" isBare>
      <Loaded query={query} what="Certificates">
        {({ certificates }) =>
          certificates.length === 0 ? (
            <p className="muted">
              No certificates yet. <code>berth ssh</code> requests one that is valid for a few
              minutes.
            </p>
          ) : (
            <Table
              label="SSH certificates"
              head={['Holder', 'For', 'State', 'Issued', 'Until', 'Change']}
            >
              {certificates.map((c) => (
                <Row key={c.serial}>
                  <Cell of="Holder">{c.holder.name}</Cell>
                  <Cell of="For">{c.grant.can.join(', ')}</Cell>
                  <Cell of="State">
                    <Status of={c.status} />
                  </Cell>
                  <Cell of="Issued">
                    <Time at={c.issued_at} />
                  </Cell>
                  <Cell of="Until">
                    <Time at={c.valid_before} />
                  </Cell>
                  <Cell of="Change" end>
                    {mayWrite && c.status === 'active' && (
                      <ActButton
                        small
                        act={() =>
                          change(
                            api.server.revokeCertificate.mutate({
                              server_id: id,
                              serial: c.serial,
                            }),
                          )
                        }
                        done="Revoked."
                      >
                        Revoke
                      </ActButton>
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

function Danger({ server: s }: { server: Server }) {
  const mayWrite = usePermission('server:write')
  const navigate = useNavigate()
  const [asking, ask] = useState<'revoke' | 'delete'>()
  const close = () => ask(undefined)
  if (!mayWrite) return null
  const inUse =
    s.environment_count > 0
      ? `${count(s.environment_count, 'environment')} still on it. Delete or move them first.`
      : undefined
  return (
    <Section title="Danger" isDanger>
      {s.joined_at && (
        <div className="row spread">
          <p>
            Revokes the certificate of the agent and closes its connection. The server can join
            again.
          </p>
          <Button onClick={() => ask('revoke')}>Revoke the agent</Button>
        </div>
      )}
      <div className="row spread">
        <p>Delete the server here. What runs on the machine is not touched.</p>
        <Button kind="danger" reason={inUse} onClick={() => ask('delete')}>
          Delete server
        </Button>
      </div>
      {asking === 'revoke' && (
        <Ask
          title={`Revoke the agent of ${s.name}?`}
          submit="Revoke the agent"
          onClose={close}
          send={() => change(api.server.revokeAgent.mutate({ server_id: s.id }))}
          done="The agent is shut out."
        >
          <Note kind="warn">
            Deployments on it fail until it joins again; what runs keeps running.
          </Note>
        </Ask>
      )}
      {asking === 'delete' && (
        <Ask
          title={`Delete ${s.name}?`}
          submit="Delete server"
          word={s.name}
          onClose={close}
          send={async () => {
            await change(api.server.delete.mutate({ server_id: s.id, confirm: s.name }))
            await navigate({ to: '/servers' })
          }}
          done="Deleted."
        />
      )}
    </Section>
  )
}
