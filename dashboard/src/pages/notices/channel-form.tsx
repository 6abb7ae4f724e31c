// The form of a channel, new or changed. It edits one rule; further rules, made with the client or the API, stay.
import { useState } from 'react'
import { Area, Check, Secret, Select, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, lines, text } from '../../components/forms/form.tsx'
import {
  type Channel,
  HAPPENING_NAMES,
  HAPPENINGS,
  KINDS,
  type Rule,
  TYPES,
  USUAL,
  useProjectNames,
} from './channels.ts'

interface Asked {
  kind: Channel['kind']
  name: string
  url?: string
  recipients?: string[]
  rules: Rule[]
}

interface FormProps {
  channel?: Channel
  sendsMail: boolean
  reason: string | undefined
  submit: string
  done: string
  send(asked: Asked): Promise<unknown>
}

const HINTS: Partial<Record<Channel['kind'], string>> = {
  slack: 'From an incoming webhook of a Slack app, https://hooks.slack.com/services/…',
  discord: 'Server settings › Integrations › Webhooks, https://discord.com/api/webhooks/…',
  teams: 'From the workflow “When a Teams webhook request is received” of the channel',
  mattermost: 'Integrations › Incoming webhooks, https://chat.example.com/hooks/…',
  webhook: 'Your receiver. Requests are signed; the secret is shown once.',
}

export function ChannelForm({ channel, sendsMail, reason, submit, done, send }: FormProps) {
  const [kind, setKind] = useState<Channel['kind']>(channel?.kind ?? 'slack')
  const [first, ...others] = channel?.rules ?? []
  const isMail = kind === 'email'
  return (
    <Form
      submit={submit}
      done={done}
      clears={!channel}
      reason={isMail && !sendsMail ? 'This installation sends no mail.' : reason}
      label={channel ? `Settings of ${channel.name}` : 'New channel'}
      send={(data) => {
        const url = text(data, 'url')
        return send({
          kind,
          name: text(data, 'name'),
          ...(isMail || url === '' ? {} : { url }),
          ...(isMail ? { recipients: lines(data, 'recipients') } : {}),
          rules: [readRule(data), ...others],
        })
      }}
    >
      {!channel && (
        <Select
          label="Kind"
          name="kind"
          value={kind}
          onChange={(event) => setKind(event.currentTarget.value as Channel['kind'])}
        >
          {Object.entries(KINDS).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
      )}
      <Text label="Name" name="name" defaultValue={channel?.name} maxLength={64} required />
      {isMail ? (
        <Area
          label="Addresses"
          name="recipients"
          rows={3}
          defaultValue={channel?.recipients.join('\n')}
          hint="One per line. They need no account."
          required
        />
      ) : (
        <Secret
          label="Address"
          name="url"
          hint={
            <>
              {HINTS[kind]} {channel && 'Leave it empty to keep the present one.'}
            </>
          }
          required={!channel}
        />
      )}
      <RuleFields rule={first} />
      {others.length > 0 && (
        <p className="muted">Its {others.length} further rules stay as they are.</p>
      )}
    </Form>
  )
}

function RuleFields({ rule }: { rule: Rule | undefined }) {
  const projects = useProjectNames()
  const isOn = (one: Rule['happenings'][number]) =>
    rule ? rule.happenings.includes(one) : USUAL.has(one)
  return (
    <>
      <fieldset>
        <legend>Send</legend>
        {HAPPENING_NAMES.map((one) => (
          <Check key={one} label={HAPPENINGS[one]} name={`on.${one}`} defaultChecked={isOn(one)} />
        ))}
      </fieldset>
      <Select
        key={`projects ${projects.size}`}
        label="Project"
        name="project"
        defaultValue={rule?.project_id ?? ''}
        hint="Servers belong to no project: choose all projects to hear of them."
      >
        <option value="">All projects</option>
        {[...projects].map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </Select>
      <Select label="Environments" name="type" defaultValue={rule?.environment_type ?? ''}>
        <option value="">All</option>
        {Object.entries(TYPES).map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </Select>
    </>
  )
}

const readRule = (data: FormData): Rule => ({
  project_id: Number(text(data, 'project')) || null,
  environment_type: (text(data, 'type') || null) as Rule['environment_type'],
  happenings: HAPPENING_NAMES.filter((one) => isChecked(data, `on.${one}`)),
})
