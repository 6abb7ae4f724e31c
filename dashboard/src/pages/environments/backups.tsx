// Backups of the environment's data: the list, a button to make one, restore with its confirmation, and the settings of
// the schedule and retention.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Select, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Section } from '../../components/page.tsx'
import { Empty, Loaded } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import type { Environment } from '../../data.ts'
import { bytes } from '../../format.ts'
import { actReason, lockReason } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'

type Backup = Awaited<ReturnType<typeof api.backup.list.query>>['backups'][number]
type Settings = Awaited<ReturnType<typeof api.backup.settings.query>>

export function EnvironmentBackups() {
  return (
    <EnvironmentFrame tab="Backups">
      {(e) => (
        <>
          <Backups environment={e} />
          <Retention environment={e} />
        </>
      )}
    </EnvironmentFrame>
  )
}

function Backups({ environment: e }: { environment: Environment }) {
  const query = useQuery(trpc.backup.list.queryOptions({ environment_id: e.id }))
  const [chosen, choose] = useState<Backup | null>(null)
  const create = () => change(api.backup.create.mutate({ environment_id: e.id }))
  return (
    <Section
      title="Backups"
      isBare
      actions={
        <ActButton act={create} done="Backup started." reason={actReason(e)}>
          Back up now
        </ActButton>
      }
    >
      <Loaded query={query} what="Backups">
        {({ backups }) =>
          backups.length === 0 ? (
            <Empty title="No backups yet">
              <p>
                A backup contains the volumes of {e.identifier}, or its shared folder. Make one
                here, or with <code>berth backup create -e {e.identifier}</code>.
              </p>
            </Empty>
          ) : (
            <Table
              label="Backups"
              head={['Backup', 'Status', 'Created', 'Size', 'Contains', 'Location', 'Change']}
            >
              {backups.map((b) => (
                <One key={b.id} backup={b} environment={e} onRestore={() => choose(b)} />
              ))}
            </Table>
          )
        }
      </Loaded>
      {chosen && <Restore environment={e} backup={chosen} onClose={() => choose(null)} />}
    </Section>
  )
}

const STATES = {
  creating: ['running', 'Creating'],
  complete: ['succeeded', 'Complete'],
  failed: ['failed', 'Failed'],
} as const

function One(props: { backup: Backup; environment: Environment; onRestore(): void }) {
  const { backup: b, environment: e, onRestore } = props
  const [state, word] = STATES[b.status]
  return (
    <Row>
      <Cell of="Backup">
        <Link to="/tasks/$id" params={{ id: String(b.task_id) }}>
          Backup {b.id}
        </Link>
      </Cell>
      <Cell of="Status" plain>
        <Status of={state} word={word} />
      </Cell>
      <Cell of="Created" plain>
        <Time at={b.created_at} /> by {b.triggered_by.name}
      </Cell>
      <Cell of="Size" plain>
        {b.status === 'complete' ? bytes(b.size_bytes) : ''}
      </Cell>
      <Cell of="Contains" plain>
        {b.parts.map((part) => part.name).join(', ')}
      </Cell>
      <Cell of="Location" plain>
        {b.location ?? e.server.name}
      </Cell>
      <Cell of="Change" end>
        {b.status === 'complete' && (
          <Button
            small
            reason={actReason(e)}
            onClick={onRestore}
            aria-label={`Restore backup ${b.id}`}
          >
            Restore
          </Button>
        )}
      </Cell>
    </Row>
  )
}

function Restore(props: { environment: Environment; backup: Backup; onClose(): void }) {
  const { environment: e, backup: b, onClose } = props
  const send = () => change(api.backup.restore.mutate({ backup_id: b.id, confirm: e.identifier }))
  return (
    <Ask
      title={`Restore backup ${b.id}?`}
      submit="Restore"
      word={e.identifier}
      send={send}
      done="Restore started."
      onClose={onClose}
    >
      <p>
        Replaces the current data of {e.identifier}. Berth checks and unpacks the backup first, then
        stops the services for a moment. If they don’t become healthy, the current data is put back.
      </p>
    </Ask>
  )
}

function Retention({ environment: e }: { environment: Environment }) {
  const query = useQuery(trpc.backup.settings.queryOptions({ environment_id: e.id }))
  return (
    <Section title="Schedule and retention">
      <Loaded query={query} what="The settings">
        {(settings) => <RetentionForm environment={e} settings={settings} />}
      </Loaded>
    </Section>
  )
}

const numberOrNull = (data: FormData, name: string): number | null => {
  const written = text(data, name)
  return written === '' ? null : Number(written)
}

function RetentionForm({
  environment: e,
  settings: s,
}: {
  environment: Environment
  settings: Settings
}) {
  const send = (data: FormData) => {
    const cron = text(data, 'schedule')
    const timezone = text(data, 'timezone') || 'UTC'
    return change(
      api.backup.updateSettings.mutate({
        environment_id: e.id,
        schedule: cron === '' ? null : { cron, timezone },
        keep_count: Number(text(data, 'keep_count')),
        keep_days: numberOrNull(data, 'keep_days'),
        place: text(data, 'place') === 'bucket' ? 'bucket' : 'server',
      }),
    )
  }
  const next = s.schedule?.paused_reason ?? s.schedule?.next_run_at
  return (
    <Form
      submit="Save changes"
      done="Saved."
      label="Schedule and retention"
      send={send}
      reason={e.may.includes('edit') ? undefined : (lockReason(e) ?? 'You can’t change it.')}
    >
      <Text
        label="Schedule"
        name="schedule"
        defaultValue={s.schedule?.cron ?? ''}
        placeholder="0 3 * * *"
        hint={
          next ? `Next: ${next}` : 'Minute, hour, day, month, weekday. Leave empty for no schedule.'
        }
      />
      <Text label="Time zone" name="timezone" defaultValue={s.schedule?.timezone ?? 'UTC'} />
      <Text
        label="Backups to keep"
        name="keep_count"
        inputMode="numeric"
        defaultValue={String(s.keep_count)}
        hint="Older ones are deleted after each new backup."
      />
      <Text
        label="Delete after days"
        name="keep_days"
        inputMode="numeric"
        defaultValue={s.keep_days === null ? '' : String(s.keep_days)}
        hint="Leave empty to keep them. The newest backup always stays."
      />
      <Select label="Location" name="place" defaultValue={s.place}>
        <option value="server">Disk of {e.server.name}</option>
        <option value="bucket">The organization’s bucket, encrypted</option>
      </Select>
    </Form>
  )
}
