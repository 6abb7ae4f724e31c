// How many environments a project has, and what each of them may use.
import { api, change } from '../../../api.ts'
import { Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { LimitFields, readLimits } from '../../../components/forms/limits-form.tsx'
import { useSteadyKey } from '../../../components/forms/unsaved.tsx'
import { Section } from '../../../components/page.tsx'
import { useMe } from '../../../organization.ts'
import type { PartProps } from './general.tsx'

export function Limits({ project: p, reason }: PartProps) {
  const isAdmin = useMe().data?.is_platform_admin ?? false
  const [key, track] = useSteadyKey([p.environment_limit, p.limits])
  return (
    <Section title="Limits">
      <Form
        key={key}
        submit="Save changes"
        done="Saved."
        label="Limits"
        reason={isAdmin ? undefined : reason}
        onDirty={track}
        send={async (data) => {
          const limit = Number(text(data, 'limit'))
          if (isAdmin && limit !== p.environment_limit) {
            await api.project.setLimit.mutate({ project_id: p.id, limit })
          }
          if (reason !== undefined) return change(Promise.resolve())
          const limits = readLimits(data)
          return change(api.project.update.mutate({ project_id: p.id, limits }))
        }}
      >
        <Text
          label="Environment limit"
          name="limit"
          type="number"
          min={1}
          max={500}
          defaultValue={p.environment_limit}
          readOnly={!isAdmin}
          hint={
            isAdmin
              ? 'Pull requests beyond it wait until an environment is deleted.'
              : 'Only a platform administrator can change it.'
          }
        />
        <p className="muted">
          Each environment may use this much. Leave a field empty for the limit of its server.
        </p>
        <LimitFields now={p.limits} usual={null} isFixed={reason !== undefined} />
      </Form>
    </Section>
  )
}
