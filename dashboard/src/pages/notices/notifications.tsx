// Notifications of the organization: its channels, what each sends, and what was sent.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { More } from '../../components/more.tsx'
import { Page, Section } from '../../components/page.tsx'
import { Empty, Loaded, Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Moment, Time } from '../../components/time.tsx'
import { useOrganization, usePermission } from '../../organization.ts'
import { ChannelForm } from './channel-form.tsx'
import { type Channel, describeRule, KINDS, useProjectNames } from './channels.ts'

export function Notifications() {
  const current = useOrganization()
  return (
    <Page title="Notifications" facts={current && <span>{current.name}</span>}>
      {current && <Channels key={current.id} organizationId={current.id} />}
    </Page>
  )
}

const REASON = 'Your role does not let you change notifications.'

function Channels({ organizationId }: { organizationId: number }) {
  const reason = usePermission('project:write') ? undefined : REASON
  const query = useQuery(trpc.channel.list.queryOptions({ organization_id: organizationId }))
  const navigate = useNavigate()
  const show = async (secretId: string | null) => {
    if (secretId) await navigate({ to: '/secrets/$id', params: { id: secretId } })
  }
  return (
    <Loaded query={query} what="Channels">
      {({ channels, sends_mail: sendsMail }) => (
        <>
          {channels.length === 0 && (
            <Empty title="No channels yet">
              <p>Add one below to learn when a deployment fails or a server is offline.</p>
            </Empty>
          )}
          {channels.map((channel) => (
            <One
              key={channel.id}
              channel={channel}
              reason={reason}
              sendsMail={sendsMail}
              onSecret={show}
            />
          ))}
          <Section title="Add a channel">
            <ChannelForm
              sendsMail={sendsMail}
              reason={reason}
              submit="Add channel"
              done="Added. Send a test to try it."
              send={async (asked) => {
                const channel = await change(
                  api.channel.create.mutate({ organization_id: organizationId, ...asked }),
                )
                await show(channel.secret_id)
              }}
            />
          </Section>
        </>
      )}
    </Loaded>
  )
}

interface OneProps {
  channel: Channel
  reason: string | undefined
  sendsMail: boolean
  onSecret(secretId: string | null): Promise<void>
}

function One({ channel: c, reason, sendsMail, onSecret }: OneProps) {
  const [open, setOpen] = useState<'edit' | 'ledger' | 'remove' | 'rotate'>()
  const names = useProjectNames()
  const toggle = (what: NonNullable<typeof open>) => setOpen(open === what ? undefined : what)
  return (
    <Section
      title={c.name}
      actions={
        <>
          <Test channel={c} reason={reason} />
          <Button
            small
            aria-expanded={open === 'edit'}
            reason={reason}
            onClick={() => toggle('edit')}
          >
            Edit
          </Button>
          <Button small reason={reason} onClick={() => toggle('remove')}>
            Remove
          </Button>
        </>
      }
    >
      <p>
        {KINDS[c.kind]} · {c.target ?? (c.recipients.join(', ') || 'no addresses')} ·{' '}
        <State channel={c} />
      </p>
      <ul className="stack-small">
        {c.rules.map((rule) => {
          const words = describeRule(rule, names)
          return <li key={words}>{words}</li>
        })}
      </ul>
      <Trouble channel={c} />
      {c.previous_secret_until && (
        <p className="muted">
          The former signing secret signs too until <Moment at={c.previous_secret_until} />.
        </p>
      )}
      <div className="row">
        <Button
          small
          aria-expanded={open === 'ledger'}
          reason={reason}
          onClick={() => toggle('ledger')}
        >
          History
        </Button>
        {c.kind === 'webhook' && (
          <Button small reason={reason} onClick={() => toggle('rotate')}>
            Regenerate signing secret
          </Button>
        )}
      </div>
      {open === 'edit' && (
        <ChannelForm
          channel={c}
          sendsMail={sendsMail}
          reason={reason}
          submit="Save changes"
          done="Saved."
          send={async ({ kind: _, ...asked }) => {
            await change(api.channel.update.mutate({ channel_id: c.id, ...asked }))
            setOpen(undefined)
          }}
        />
      )}
      {open === 'ledger' && <Ledger channel={c} />}
      {open === 'remove' && (
        <Ask
          title={`Remove ${c.name}?`}
          submit="Remove channel"
          onClose={() => setOpen(undefined)}
          send={() => change(api.channel.remove.mutate({ channel_id: c.id }))}
          done="Removed."
        >
          <p>Its rules and the list of what was sent are removed too.</p>
        </Ask>
      )}
      {open === 'rotate' && (
        <Ask
          title="Regenerate the signing secret?"
          submit="Regenerate"
          kind="main"
          onClose={() => setOpen(undefined)}
          send={async () => {
            const made = await change(api.channel.rotateSecret.mutate({ channel_id: c.id }))
            await onSecret(made.secret_id)
          }}
        >
          <p>Requests are signed with both secrets for 24 hours.</p>
        </Ask>
      )}
    </Section>
  )
}

function State({ channel: c }: { channel: Channel }) {
  if (c.broken_at) return <Status of="failed" word="Broken" />
  if (c.failing_since) return <Status of="degraded" word="Failing" />
  if (!c.last_delivered_at) return <Status of="new" word="Nothing sent yet" />
  return (
    <>
      <Status of="succeeded" word="Working" />, last <Time at={c.last_delivered_at} />
    </>
  )
}

function Trouble({ channel: c }: { channel: Channel }) {
  if (c.broken_at) {
    return (
      <Note kind="bad">
        Berth stopped sending <Time at={c.broken_at} />: {c.error} Correct the address or the
        receiver, then send a test: that starts it again. Skipped notifications can be replayed.
      </Note>
    )
  }
  if (!c.failing_since) return null
  return (
    <Note kind="warn">
      Failing since <Time at={c.failing_since} />: {c.error} {c.waiting} waiting. Berth tries again
      by itself for about a day.
    </Note>
  )
}

function Test({ channel, reason }: { channel: Channel; reason: string | undefined }) {
  const [failed, setFailed] = useState<string>()
  return (
    <>
      <ActButton
        small
        reason={reason}
        label={`Send a test to ${channel.name}`}
        act={async () => {
          setFailed(undefined)
          const { notifications } = await change(
            api.channel.test.mutate({ channel_id: channel.id }),
          )
          const bad = notifications.find(({ status }) => status !== 'delivered')
          if (bad) setFailed(`${bad.recipient ? `${bad.recipient}: ` : ''}${bad.error}`)
        }}
      >
        Send a test
      </ActButton>
      {failed && (
        <span role="alert">
          <Status of="failed" word={failed} />
        </span>
      )}
    </>
  )
}

function Ledger({ channel }: { channel: Channel }) {
  const query = useQuery({
    ...trpc.channel.ledger.queryOptions({ channel_id: channel.id, limit: 20 }),
    select: (page) => ({ items: page.notifications, next: page.next }),
  })
  return (
    <More
      what="Notifications"
      query={query}
      keyOf={(one) => one.id}
      older={async (cursor) => {
        const page = await api.channel.ledger.query({ channel_id: channel.id, limit: 20, cursor })
        return { items: page.notifications, next: page.next }
      }}
      empty={<p>Nothing was sent yet.</p>}
    >
      {(list) => (
        <Table
          label={`Sent to ${channel.name}`}
          head={['When', 'What', 'State', 'Tries', 'Result', 'Replay']}
        >
          {list.map((one) => (
            <Row key={one.id}>
              <Cell of="When">
                <Time at={one.created_at} />
              </Cell>
              <Cell of="What" plain>
                <div className="stack-small">
                  <span>
                    {one.task_id ? <a href={`/tasks/${one.task_id}`}>{one.title}</a> : one.title}
                    {one.replay_of !== null && <span className="muted small"> (replay)</span>}
                  </span>
                  {one.recipient && <span className="muted small">{one.recipient}</span>}
                </div>
              </Cell>
              <Cell of="State" plain>
                <Status of={one.status} />
              </Cell>
              <Cell of="Tries">{one.tries}</Cell>
              <Cell of="Result" plain>
                <span className="small">
                  {one.error ?? [one.answer_status, one.answer].filter(Boolean).join(' ')}
                </span>
              </Cell>
              <Cell of="Replay" end>
                {one.status !== 'waiting' && one.happening !== 'test' && (
                  <ActButton
                    small
                    label={`Replay ${one.title}`}
                    act={() => change(api.channel.replay.mutate({ notification_id: one.id }))}
                    done="It is sent again."
                  >
                    Replay
                  </ActButton>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </More>
  )
}
