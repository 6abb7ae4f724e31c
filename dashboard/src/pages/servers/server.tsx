// One server: its state, what it offers, how full it is, its certificates, and its removal.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Meter } from '../../components/meter.tsx'
import { SideNav } from '../../components/navigation/side-nav.tsx'
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
import { CannotJoin, JoinCommand, type JoinProblems } from './join-command.tsx'
import { ServerCharts, usageOptions } from './server-charts.tsx'
import { ServerSettings } from './server-settings.tsx'
import { AgentVersion, ServerState } from './servers.tsx'
import { Sharing } from './sharing.tsx'

export function ServerPage() {
  const id = useId()
  const { part = '' } = useParams({ strict: false }) as { part?: string }
  const server = useQuery(trpc.server.get.queryOptions({ server_id: id }))
  const usage = useQuery({ ...usageOptions(id), enabled: part === '' })
  // a server of another organization is looked at from the own one
  useOrganizationOf(server.data?.shared_by ? undefined : server.data?.organization_id)
  if (!PARTS.some(({ of }) => of === part)) return <NotFound />
  return (
    <Loaded
      query={server}
      also={[usage]}
      what="The server"
      missing={<NotFound />}
      frame={(state) => <Page title="Server">{state}</Page>}
    >
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

const PARTS = [
  { of: '', label: 'Overview' },
  { of: 'settings', label: 'Settings' },
  { of: 'sharing', label: 'Sharing' },
  { of: 'certificates', label: 'SSH certificates' },
  { of: 'delete', label: 'Delete server' },
] as const

function Own({ server: s }: { server: Server }) {
  const { part = '' } = useParams({ strict: false }) as { part?: string }
  return (
    <SideNav
      label={`Pages of ${s.name}`}
      links={PARTS.map(({ of, label }) => ({
        to: `/servers/${s.id}${of === '' ? '' : `/${of}`}`,
        label,
        isExact: of === '',
      }))}
    >
      {part === '' && (
        <>
          <Joining server={s} />
          {s.facts && <Machine server={s} facts={s.facts} />}
          <ServerCharts id={s.id} />
          <Parts server={s} />
        </>
      )}
      {part === 'settings' && <ServerSettings server={s} />}
      {part === 'sharing' && <Sharing server={s} />}
      {part === 'certificates' && <Certificates id={s.id} />}
      {part === 'delete' && <Danger server={s} />}
    </SideNav>
  )
}

function Joining({ server: s }: { server: Server }) {
  const mayWrite = usePermission('server:write')
  const { join } = useSearch({ strict: false }) as { join?: string }
  const navigate = useNavigate()
  const [problems, setProblems] = useState<JoinProblems>([])
  if (!mayWrite) return null
  const isNew = s.joined_at === null
  if (!isNew && s.status === 'online' && !join) return null
  const make = async () => {
    const made = await api.server.joinToken.mutate({ server_id: s.id, rejoin: !isNew })
    setProblems(made.problems)
    if (!made.join?.secret_id) return
    await navigate({
      to: '/servers/$id',
      params: { id: String(s.id) },
      search: { join: made.join.secret_id },
    })
  }
  return (
    <Section title={isNew || join ? 'Join' : 'Join again'}>
      {join && <JoinCommand server={s} secret={join} />}
      {s.status !== 'online' && (
        <>
          {!join && (
            <p className="muted">
              {isNew
                ? 'The agent has not joined yet. The command works once, for 15 minutes.'
                : 'For a server that was set up again. The former agent is locked out when the new one joins.'}
            </p>
          )}
          <CannotJoin problems={problems} />
          <div className="row">
            <ActButton kind={isNew && !join ? 'main' : 'plain'} act={make}>
              {join ? 'New join command' : 'Show join command'}
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
          ['Docker', f.docker_version ?? 'Not installed'],
          ['Recipes', s.recipes.join(', ') || 'None'],
          ['Joined', s.joined_at ? <Time key="j" at={s.joined_at} /> : 'Never'],
          ['SSH keys and revocations', s.trust ? TRUST[s.trust.state] : 'None'],
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
    <Section title="Software" isBare>
      <Table label="Software" head={['Part', 'Version', 'State']}>
        {s.parts.map((part) => (
          <Row key={part.name}>
            <Cell of="Part">{part.name}</Cell>
            <Cell of="Version" plain>
              {part.version ?? ''}
            </Cell>
            <Cell of="State" plain>
              <div className="stack-small">
                {part.reason ? (
                  <Status
                    of="missing"
                    word={part.version ? 'Needs attention' : 'Not found'}
                    tone="warn"
                  />
                ) : (
                  <span className="muted">Installed</span>
                )}
                {part.reason && <span className="muted small">{part.reason}</span>}
              </div>
            </Cell>
          </Row>
        ))}
      </Table>
    </Section>
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
                  <Cell of="For" plain>
                    {c.grant.can.join(', ')}
                  </Cell>
                  <Cell of="State" plain>
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
    <Section title="Delete server" isDanger>
      {s.joined_at && (
        <div className="row spread">
          <p>Locks the agent out and closes its connection. The server can join again.</p>
          <Button onClick={() => ask('revoke')}>Revoke agent</Button>
        </div>
      )}
      <div className="row spread">
        <p>Removes the server from Berth. What runs on the machine is not touched.</p>
        <Button kind="danger" reason={inUse} onClick={() => ask('delete')}>
          Delete server
        </Button>
      </div>
      {asking === 'revoke' && (
        <Ask
          title={`Revoke the agent of ${s.name}?`}
          submit="Revoke agent"
          onClose={close}
          send={() => change(api.server.revokeAgent.mutate({ server_id: s.id }))}
          done="The agent is locked out."
        >
          <Note kind="warn">
            Deployments on it fail until it joins again. Running services keep running.
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
