// Whether visitors of the project's environments are asked for a password.
import { api, change } from '../../../api.ts'
import { BasicAuthForm } from '../../../components/forms/basic-auth.tsx'
import { useSteadyKey } from '../../../components/forms/unsaved.tsx'
import type { PartProps } from './general.tsx'

export function Access({ project: p, reason }: PartProps) {
  const [key, track] = useSteadyKey(p.basic_auth)
  return (
    <BasicAuthForm
      key={key}
      now={p.basic_auth}
      inherits={false}
      reason={reason}
      onDirty={track}
      send={(asked) => {
        const basic_auth = asked.mode === 'own' ? asked : { mode: 'off' as const }
        return change(api.project.setBasicAuth.mutate({ project_id: p.id, basic_auth }))
      }}
    />
  )
}
