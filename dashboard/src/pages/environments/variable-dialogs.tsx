// Dialogs that change variables of an environment or of a level, and the list of who changed them. Typed values exist only
// in the field, which is cleared after sending.
import { useState } from 'react'
import type { api } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Area, Check, Secret, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, text } from '../../components/forms/form.tsx'
import { More } from '../../components/more.tsx'
import { Section } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { say } from '../../components/toast.tsx'
import { isReserved, readDotenv } from '../../dotenv.ts'
import { count } from '../../format.ts'

export type Editing =
  | { kind: 'add' }
  | { kind: 'paste' }
  | { kind: 'replace' | 'delete'; key: string }

/** One change; the answer names the keys. */
export interface VariableChange {
  set?: Record<string, string>
  unset?: string[]
  generate?: Record<string, { replace?: boolean }>
}
type Send = (change: VariableChange) => Promise<{ set: string[]; unchanged: string[] }>

export const LEVELS = {
  project: 'All environments',
  previews: 'All previews',
  manual: 'All manual environments',
  environment: 'This environment',
}

interface EditorProps {
  editing: Editing | undefined
  send: Send
  onClose(): void
}

export function VariableEditor({ editing, send, onClose }: EditorProps) {
  if (editing?.kind === 'add') return <One send={send} onClose={onClose} />
  if (editing?.kind === 'replace') return <One known={editing.key} send={send} onClose={onClose} />
  if (editing?.kind === 'paste') return <Paste send={send} onClose={onClose} />
  if (editing?.kind !== 'delete') return null
  return (
    <Ask
      title={`Delete ${editing.key}?`}
      submit="Delete"
      onClose={onClose}
      send={() => send({ unset: [editing.key] })}
      done="Deleted. Takes effect on the next deployment."
    >
      <p>The running version keeps it until the next deployment.</p>
    </Ask>
  )
}

function One({ known, send, onClose }: { known?: string; send: Send; onClose(): void }) {
  const [isGenerated, generate] = useState(false)
  return (
    <Dialog title={known ? `Replace ${known}` : 'Add a variable'} onClose={onClose}>
      <Form
        submit="Save"
        clears
        done="Saved. Takes effect on the next deployment."
        send={async (data) => {
          const key = known ?? text(data, 'key').trim()
          const replace = known !== undefined
          const change = isChecked(data, 'generate')
            ? { generate: { [key]: { replace } } }
            : { set: { [key]: text(data, 'value') } }
          await send(change)
          onClose()
        }}
      >
        {known === undefined && (
          <Text
            label="Key"
            name="key"
            also={['set', 'generate']}
            placeholder="APP_KEY"
            autoCapitalize="off"
            autoComplete="off"
            spellCheck={false}
            required
          />
        )}
        {!isGenerated && <Secret label="Value" name="value" />}
        <Check
          label="Generate a random value"
          name="generate"
          hint="32 letters and digits, generated on the server and never shown."
          onChange={(event) => generate(event.currentTarget.checked)}
        />
      </Form>
    </Dialog>
  )
}

/** The text stays in the field; only its keys are read before it is sent. */
function Paste({ send, onClose }: { send: Send; onClose(): void }) {
  const [keys, setKeys] = useState<string[]>([])
  const wanted = keys.filter((key) => !isReserved(key))
  return (
    <Dialog title="Paste .env" onClose={onClose}>
      <Form
        submit={wanted.length > 0 ? `Set ${count(wanted.length, 'variable')}` : 'Set'}
        clears
        reason={wanted.length === 0 ? 'No keys found yet.' : undefined}
        send={async (data) => {
          const found = readDotenv(text(data, 'env')).filter((p) => !isReserved(p.key))
          const set = Object.fromEntries(found.map((p) => [p.key, p.value]))
          const made = await send({ set })
          say(`${count(made.set.length, 'variable')} set, ${made.unchanged.length} unchanged.`)
          onClose()
        }}
      >
        <Area
          label="Contents of the file"
          name="env"
          also={['set']}
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

type Page = Awaited<ReturnType<typeof api.variable.history.query>>
type Entry = Page['changes'][number]

interface HistoryProps {
  query: { data: Page | undefined; error: unknown; isError: boolean; refetch(): unknown }
  older(cursor: number): Promise<Page>
}

const paged = ({ changes, next }: Page) => ({ items: changes, next })

/** Who changed which keys, newest first. */
export function VariableHistory({ query, older }: HistoryProps) {
  return (
    <Section title="History" isBare>
      <More
        what="The history"
        query={{ ...query, data: query.data && paged(query.data) }}
        keyOf={(one) => one.id}
        older={async (cursor) => paged(await older(cursor))}
        empty={<Empty title="No changes yet" />}
      >
        {(entries) => (
          <Table label="History of variables" head={['Keys', 'Where', 'By', 'When']}>
            {entries.map((one) => (
              <Row key={one.id}>
                <Cell of="Keys">{wordsOf(one)}</Cell>
                <Cell of="Where" plain>
                  {one.environment?.identifier ?? LEVELS[one.level]}
                </Cell>
                <Cell of="By" plain>
                  {one.by.name ?? one.by.type}
                </Cell>
                <Cell of="When" plain>
                  <Time at={one.at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </More>
    </Section>
  )
}

const wordsOf = (one: Entry): string =>
  [
    ['set', one.set] as const,
    ['removed', one.unset] as const,
    ['shared with forks', one.forks_on] as const,
    ['no longer shared with forks', one.forks_off] as const,
  ]
    .filter(([, keys]) => keys.length > 0)
    .map(([verb, keys]) => `${keys.join(', ')} ${verb}`)
    .join('; ')
