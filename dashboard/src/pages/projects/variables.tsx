// Variables of a project by level: for all environments, all previews, all manual ones. Keys are shown, values are
// write-only.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
import { Section } from '../../components/page.tsx'
import { Loaded } from '../../components/states.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import type { Project } from '../../data.ts'
import { usePermission } from '../../organization.ts'
import {
  type Editing,
  LEVELS,
  VariableEditor,
  VariableHistory,
} from '../environments/variable-dialogs.tsx'
import { ProjectFrame } from './frame.tsx'

type Variable = Awaited<ReturnType<typeof api.variable.levels.query>>['variables'][number]
type Level = Variable['level']

const HINTS: Record<Level, string> = {
  project: 'Every environment gets these, unless a nearer level has the same key.',
  previews: 'The environments of pull requests get these from their first deployment on.',
  manual: 'Environments that people created get these.',
}

export function ProjectVariables() {
  return (
    <ProjectFrame tab="Variables">
      {(p) => (
        <>
          <Levels project={p} />
          <History project={p} />
        </>
      )}
    </ProjectFrame>
  )
}

function Levels({ project: p }: { project: Project }) {
  const query = useQuery(trpc.variable.levels.queryOptions({ project_id: p.id }))
  return (
    <>
      <p className="muted">
        The nearest level wins: an environment’s own variables, then those of its kind, then those
        of the project. Values cannot be shown, only replaced. Environments of forks get a key only
        if it is shared with them.
      </p>
      <Loaded query={query} what="Variables">
        {({ variables }) => (
          <>
            {(['project', 'previews', 'manual'] as const).map((level) => (
              <OneLevel
                key={level}
                project={p}
                level={level}
                variables={variables.filter((v) => v.level === level)}
              />
            ))}
          </>
        )}
      </Loaded>
    </>
  )
}

interface LevelProps {
  project: Project
  level: Level
  variables: Variable[]
}

function OneLevel({ project: p, level, variables }: LevelProps) {
  const [editing, edit] = useState<Editing>()
  const mayChange = usePermission('project:write')
  return (
    <Section
      title={LEVELS[level]}
      isBare
      actions={
        mayChange && (
          <>
            <Button aria-label={`Add to ${LEVELS[level]}`} onClick={() => edit({ kind: 'add' })}>
              <Icon name="plus" /> Add
            </Button>
            <Button
              aria-label={`Paste .env to ${LEVELS[level]}`}
              onClick={() => edit({ kind: 'paste' })}
            >
              Paste .env
            </Button>
          </>
        )
      }
    >
      <p className="muted">{HINTS[level]}</p>
      {variables.length === 0 ? (
        <p>No variables yet.</p>
      ) : (
        <Table
          label={`Variables of ${LEVELS[level]}`}
          head={['Key', 'Overridden in', 'Forks', 'Updated', 'Change']}
        >
          {variables.map((v) => (
            <Row key={v.key}>
              <Cell of="Key">
                <code>{v.key}</code>
              </Cell>
              <Cell of="Overridden in">
                {v.shadowed_by
                  .map((by) => by.environment?.identifier ?? LEVELS[by.level].toLowerCase())
                  .join(', ')}
              </Cell>
              <Cell of="Forks">
                <Forks project={p} variable={v} mayChange={mayChange} />
              </Cell>
              <Cell of="Updated" plain>
                <span>
                  <Time at={v.updated_at} /> by {v.updated_by.name}
                </span>
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
      )}
      <VariableEditor
        editing={editing}
        send={(asked) =>
          change(api.variable.changeLevel.mutate({ project_id: p.id, level, ...asked }))
        }
        onClose={() => edit(undefined)}
      />
    </Section>
  )
}

interface ForksProps {
  project: Project
  variable: Variable
  mayChange: boolean
}

function Forks({ project, variable: v, mayChange }: ForksProps) {
  if (v.level === 'manual') return <span className="muted">Never shared</span>
  const word = v.forks ? 'Shared' : 'Not shared'
  if (!mayChange) return <span>{word}</span>
  return (
    <span className="row">
      {word}
      <ActButton
        small
        kind="quiet"
        label={v.forks ? `Stop sharing ${v.key} with forks` : `Share ${v.key} with forks`}
        act={() =>
          change(
            api.variable.changeLevel.mutate({
              project_id: project.id,
              level: v.level,
              forks: { [v.key]: !v.forks },
            }),
          )
        }
        done={v.forks ? 'Forks no longer get it.' : 'Forks get it too.'}
      >
        {v.forks ? 'Stop sharing' : 'Share'}
      </ActButton>
    </span>
  )
}

function History({ project: p }: { project: Project }) {
  const asked = { project_id: p.id, limit: 20 }
  return (
    <VariableHistory
      query={useQuery(trpc.variable.projectHistory.queryOptions(asked))}
      older={(cursor) => api.variable.projectHistory.query({ ...asked, cursor })}
    />
  )
}
