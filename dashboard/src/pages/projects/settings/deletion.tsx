// The deletion of a project: what it removes, and its progress.
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../../api.ts'
import { Ask } from '../../../components/act.tsx'
import { Button } from '../../../components/button.tsx'
import { Section } from '../../../components/page.tsx'
import { Status } from '../../../components/status.tsx'
import { useEnvironments } from '../../../data.ts'
import type { PartProps } from './general.tsx'

export function Deletion({ project: p, reason }: PartProps) {
  const [isAsking, ask] = useState(false)
  const navigate = useNavigate()
  const list = useEnvironments(p.id).data?.environments ?? []
  const guarded = list.filter((e) => e.protected)
  if (p.status === 'deleting') {
    return (
      <Section title="Deleting" isDanger>
        <p>Left to remove:</p>
        <ul className="stack-small">
          {list.map((e) => (
            <li key={e.id} className="row">
              <Status of={e.status} word={e.identifier} />{' '}
              <span className="muted">{e.server.name}</span>
            </li>
          ))}
        </ul>
      </Section>
    )
  }
  return (
    <Section title="Delete project" isDanger>
      <p>Deletes the project, its environments with their data, its variables and its history.</p>
      <div className="row">
        <Button kind="danger" reason={reason} onClick={() => ask(true)}>
          Delete project
        </Button>
      </div>
      {isAsking && (
        <Ask
          title={`Delete ${p.name}?`}
          submit="Delete project"
          word={p.name}
          ticks={guarded.map((e) => ({
            name: `e${e.id}`,
            label: `Also ${e.identifier}, protected by ${e.owner.name}`,
          }))}
          onClose={() => ask(false)}
          send={async () => {
            const confirm_protected = guarded.map((e) => e.id)
            await change(
              api.project.delete.mutate({ project_id: p.id, confirm: p.name, confirm_protected }),
            )
            await navigate({ to: '/' })
          }}
          done={list.length === 0 ? `${p.name} was deleted.` : `${p.name} is being deleted.`}
        >
          <p>
            {list.length === 0
              ? 'It has no environments.'
              : `Berth stops and removes ${list.map((e) => e.identifier).join(', ')}.`}
          </p>
        </Ask>
      )}
    </Section>
  )
}
