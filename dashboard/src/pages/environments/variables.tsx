// Variables of an environment: keys and their levels are shown, values are write-only.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { Button } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
import { Section } from '../../components/page.tsx'
import { Empty, Loaded, Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import type { Environment } from '../../data.ts'
import { SYSTEM_NAMES } from '../../dotenv.ts'
import { useId } from '../../params.ts'
import { Changed } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'
import { type Editing, LEVELS, VariableEditor, VariableHistory } from './variable-dialogs.tsx'
import css from './variables.module.css'

const HISTORY = 20
const listOptions = (id: number) => trpc.variable.list.queryOptions({ environment_id: id })
const historyOptions = (id: number) =>
  trpc.variable.history.queryOptions({ environment_id: id, limit: HISTORY })

export function EnvironmentVariables() {
  const id = useId()
  const also = [useQuery(listOptions(id)), useQuery(historyOptions(id))]
  return (
    <EnvironmentFrame tab="Variables" also={also}>
      {(e) => (
        <>
          {e.variables_changed && <Changed environment={e} />}
          {e.pull_request?.from_fork && (
            <Note>
              This pull request comes from a fork. It gets its own variables and those that are
              shared with forks.
            </Note>
          )}
          <Variables environment={e} />
          <History environment={e} />
        </>
      )}
    </EnvironmentFrame>
  )
}

type Variable = Awaited<ReturnType<typeof api.variable.list.query>>['variables'][number]

function Variables({ environment: e }: { environment: Environment }) {
  const query = useQuery(listOptions(e.id))
  const [editing, edit] = useState<Editing>()
  const mayChange = e.may.includes('change_variables')
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
            <Empty title="No variables yet">
              <p>
                <code>berth vars set -e {e.identifier} APP_KEY</code> asks for the value.
              </p>
            </Empty>
          ) : (
            ORDER.map((level) => (
              <OneLevel
                key={level}
                environment={e}
                level={level}
                variables={variables}
                edit={mayChange ? edit : undefined}
              />
            ))
          )
        }
      </Loaded>
      <p className="muted">
        Values cannot be shown, only replaced. Changes apply to the next deployment.
      </p>
      <p className="muted">
        System (always set):{' '}
        {SYSTEM_NAMES.map((name) => (
          <span key={name}>
            <code>{name}</code>{' '}
          </span>
        ))}
      </p>
      <VariableEditor
        editing={editing}
        send={(asked) => change(api.variable.change.mutate({ environment_id: e.id, ...asked }))}
        onClose={() => edit(undefined)}
      />
    </Section>
  )
}

/** The nearest level first: it wins. */
const ORDER = ['environment', 'previews', 'manual', 'project'] as const
type Level = Variable['level']

interface LevelProps {
  environment: Environment
  level: Level
  variables: readonly Variable[]
  /** Undefined if the user may not change them. */
  edit: ((editing: Editing) => void) | undefined
}

/** The keys of one level: those it gives, and those that a nearer level overrides. */
function OneLevel({ environment: e, level, variables, edit }: LevelProps) {
  const given = variables.filter((v) => v.level === level)
  const overridden = variables.filter((v) => v.shadows.some((one) => one === level))
  if (given.length + overridden.length === 0) return null
  return (
    <div className={css.level}>
      <div className="row spread">
        <h3>{LEVELS[level]}</h3>
        {level !== 'environment' && (
          <Link
            to="/projects/$id/variables"
            params={{ id: String(e.project_id) }}
            className="small"
            aria-label={`Edit ${LEVELS[level].toLowerCase()}`}
          >
            Edit
          </Link>
        )}
      </div>
      <Table
        label={`Variables of ${LEVELS[level].toLowerCase()}`}
        head={['Key', 'State', 'Updated', 'Change']}
      >
        {given.map((v) => (
          <VariableRow key={v.key} variable={v} edit={edit} />
        ))}
        {overridden.map((v) => (
          <Row key={v.key}>
            <Cell of="Key">
              <code className={css.overridden}>{v.key}</code>
            </Cell>
            <Cell of="State" plain>
              <span className="muted">Overridden by {LEVELS[v.level].toLowerCase()}</span>
            </Cell>
            <Cell of="Updated" />
            <Cell of="Change" end />
          </Row>
        ))}
      </Table>
    </div>
  )
}

function VariableRow({ variable: v, edit }: { variable: Variable; edit: LevelProps['edit'] }) {
  const isOwn = v.level === 'environment'
  return (
    <Row>
      <Cell of="Key">
        <code>{v.key}</code>
      </Cell>
      <Cell of="State" plain>
        <VariableState variable={v} />
      </Cell>
      <Cell of="Updated" plain>
        <span>
          <Time at={v.updated_at} /> by {v.updated_by.name}
        </span>
      </Cell>
      <Cell of="Change" end>
        {edit && (
          <span className="row">
            <Button
              small
              aria-label={`${isOwn ? 'Replace' : 'Override'} ${v.key}`}
              onClick={() => edit({ kind: 'replace', key: v.key })}
            >
              {isOwn ? 'Replace' : 'Override'}
            </Button>
            {isOwn && (
              <Button
                small
                aria-label={`Delete ${v.key}`}
                onClick={() => edit({ kind: 'delete', key: v.key })}
              >
                Delete
              </Button>
            )}
          </span>
        )}
      </Cell>
    </Row>
  )
}

function VariableState({ variable: v }: { variable: Variable }) {
  const over = v.shadows.map((level) => LEVELS[level].toLowerCase()).join(', ')
  if (!v.changed_since_deployment && !over) return null
  return (
    <span className="row">
      {v.changed_since_deployment && (
        <Status of="waiting" icon="dot" tone="warn" word="Not deployed yet" />
      )}
      {over && <span className="muted">Overrides {over}</span>}
    </span>
  )
}

function History({ environment: e }: { environment: Environment }) {
  const older = { environment_id: e.id, limit: HISTORY }
  return (
    <VariableHistory
      query={useQuery(historyOptions(e.id))}
      older={(cursor) => api.variable.history.query({ ...older, cursor })}
    />
  )
}
