// Variables: keys are shown, values are write-only. Typed values exist only in the field, which is cleared after
// sending.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Area, Secret, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import { Section } from '../../components/page.tsx'
import { Empty, Loaded } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { say } from '../../components/toast.tsx'
import type { Environment } from '../../data.ts'
import { isReserved, readDotenv, SYSTEM_NAMES } from '../../dotenv.ts'
import { count } from '../../format.ts'
import { Changed } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'

export function EnvironmentVariables() {
  return (
    <EnvironmentFrame tab="Variables">
      {(e) => (
        <>
          {e.variables_changed && <Changed environment={e} />}
          <Variables environment={e} />
        </>
      )}
    </EnvironmentFrame>
  )
}

type Editing = { kind: 'add' } | { kind: 'paste' } | { kind: 'replace' | 'delete'; key: string }

function Variables({ environment: e }: { environment: Environment }) {
  const query = useQuery(trpc.variable.list.queryOptions({ environment_id: e.id }))
  const [editing, edit] = useState<Editing>()
  const mayChange = e.may.includes('change_variables')
  const close = () => edit(undefined)
  return (
    <Section
      title="Variables"
      isBare
      actions={
        mayChange && (
          <>
            <Button onClick={() => edit({ kind: 'add' })}>
              <Icon name="plus" /> Add
            </Button>
            <Button onClick={() => edit({ kind: 'paste' })}>Paste .env</Button>
          </>
        )
      }
    >
      <Loaded query={query} what="Variables">
        {({ variables }) =>
          variables.length === 0 ? (
            <Empty title="No variables yet.">
              <p>
                <code>berth vars set -e {e.identifier} APP_KEY</code> asks for the value.
              </p>
            </Empty>
          ) : (
            <Table label="Variables" head={['Key', 'Updated', 'By', 'State', 'Change']}>
              {variables.map((v) => (
                <Row key={v.key}>
                  <Cell of="Key">
                    <code>{v.key}</code>
                  </Cell>
                  <Cell of="Updated">
                    <Time at={v.updated_at} />
                  </Cell>
                  <Cell of="By">{v.updated_by.name}</Cell>
                  <Cell of="State">
                    {v.changed_since_deployment ? (
                      <Status of="waiting" icon="dot" tone="warn" word="not deployed yet" />
                    ) : (
                      ''
                    )}
                  </Cell>
                  <Cell of="Change" end>
                    {mayChange && (
                      <span className="row">
                        <Button
                          small
                          aria-label={`Replace ${v.key}`}
                          onClick={() => edit({ kind: 'replace', key: v.key })}
                        >
                          Replace
                        </Button>
                        <Button
                          small
                          aria-label={`Delete ${v.key}`}
                          onClick={() => edit({ kind: 'delete', key: v.key })}
                        >
                          Delete
                        </Button>
                      </span>
                    )}
                  </Cell>
                </Row>
              ))}
            </Table>
          )
        }
      </Loaded>
      <p className="muted">
        Values cannot be shown, only replaced. A change applies to the next deployment.
      </p>
      <p className="muted">
        System (always set):{' '}
        {SYSTEM_NAMES.map((name) => (
          <span key={name}>
            <code>{name}</code>{' '}
          </span>
        ))}
      </p>
      {(editing?.kind === 'add' || editing?.kind === 'replace') && (
        <One
          id={e.id}
          known={editing.kind === 'replace' ? editing.key : undefined}
          onClose={close}
        />
      )}
      {editing?.kind === 'paste' && <Paste id={e.id} onClose={close} />}
      {editing?.kind === 'delete' && (
        <Ask
          title={`Delete ${editing.key}?`}
          submit="Delete"
          onClose={close}
          send={() =>
            change(api.variable.change.mutate({ environment_id: e.id, unset: [editing.key] }))
          }
          done="Deleted. It applies to the next deployment."
        >
          <p>The running version keeps it until the next deployment.</p>
        </Ask>
      )}
    </Section>
  )
}

function One({ id, known, onClose }: { id: number; known: string | undefined; onClose(): void }) {
  return (
    <Dialog title={known ? `Replace ${known}` : 'Add a variable'} onClose={onClose}>
      <Form
        submit="Save"
        clears
        done="Saved. It applies to the next deployment."
        send={async (data, form) => {
          const key = known ?? text(data, 'key').trim()
          const set = { [key]: text(data, 'value') }
          form.reset()
          await change(api.variable.change.mutate({ environment_id: id, set }))
          onClose()
        }}
      >
        {known === undefined && (
          <Text
            label="Key"
            name="key"
            placeholder="APP_KEY"
            autoCapitalize="off"
            autoComplete="off"
            spellCheck={false}
            required
          />
        )}
        <Secret label="Value" name="value" />
      </Form>
    </Dialog>
  )
}

/** The text stays in the field; only its keys are read before it is sent. */
function Paste({ id, onClose }: { id: number; onClose(): void }) {
  const [keys, setKeys] = useState<string[]>([])
  const wanted = keys.filter((key) => !isReserved(key))
  return (
    <Dialog title="Paste .env" onClose={onClose}>
      <Form
        submit={wanted.length > 0 ? `Set ${count(wanted.length, 'variable')}` : 'Set'}
        clears
        reason={wanted.length === 0 ? 'No keys found yet.' : undefined}
        send={async (data, form) => {
          const found = readDotenv(text(data, 'env')).filter((p) => !isReserved(p.key))
          const set = Object.fromEntries(found.map((p) => [p.key, p.value]))
          form.reset()
          const made = await change(api.variable.change.mutate({ environment_id: id, set }))
          say(`${count(made.set.length, 'variable')} set, ${made.unchanged.length} unchanged.`)
          onClose()
        }}
      >
        <Area
          label="Contents of the file"
          name="env"
          rows={8}
          autoComplete="off"
          placeholder="APP_KEY=…"
          onChange={(event) => setKeys(readDotenv(event.currentTarget.value).map((p) => p.key))}
        />
        {keys.length > 0 && (
          <div role="status" className="stack-small">
            <p>Keys found:</p>
            <ul className="row">
              {keys.map((key) => (
                <li key={key}>
                  <code>{key}</code>
                  {isReserved(key) && <span className="muted"> (reserved, left out)</span>}
                </li>
              ))}
            </ul>
          </div>
        )}
      </Form>
    </Dialog>
  )
}
