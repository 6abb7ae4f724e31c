// The name of a project, its repository and recipe, its servers and its owner.
import { api, change } from '../../../api.ts'
import { Check, Select, Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { useSteadyKey } from '../../../components/forms/unsaved.tsx'
import { Section } from '../../../components/page.tsx'
import { type Project, useMembers, useServers } from '../../../data.ts'

export interface PartProps {
  project: Project
  reason: string | undefined
}

export function General({ project: p, reason }: PartProps) {
  const servers = useServers().data?.servers ?? p.servers
  const members = useMembers(p.organization_id).data?.members ?? []
  const [key, track] = useSteadyKey([
    p.name,
    p.repo_url,
    p.default_branch,
    p.default_recipe,
    p.servers,
    p.default_server_id,
    p.owner,
  ])
  return (
    <Section title="General">
      <Form
        key={key}
        submit="Save changes"
        done="Saved."
        reason={reason}
        label="General"
        onDirty={track}
        send={(data) => {
          const owner = Number(text(data, 'owner_id'))
          return change(
            api.project.update.mutate({
              project_id: p.id,
              name: text(data, 'name'),
              repo_url: text(data, 'repo_url').trim(),
              default_branch: text(data, 'default_branch').trim(),
              default_recipe: text(data, 'default_recipe') as 'docker' | 'manual',
              server_ids: data.getAll('server_ids').map(Number),
              default_server_id: Number(text(data, 'default_server_id')),
              ...(owner && owner !== p.owner.id ? { owner_id: owner } : {}),
            }),
          )
        }}
      >
        <Text label="Name" name="name" defaultValue={p.name} maxLength={64} required />
        <Text
          label="Repository"
          name="repo_url"
          defaultValue={p.repo_url}
          spellCheck={false}
          required
        />
        <Text
          label="Default branch"
          name="default_branch"
          defaultValue={p.default_branch}
          required
        />
        <Select
          label="Recipe"
          name="default_recipe"
          defaultValue={p.default_recipe}
          hint="For environments without a recipe of their own. The section of .service.yml with this name is used."
        >
          <option value="docker">docker</option>
          <option value="manual">manual</option>
        </Select>
        <fieldset className="stack-small">
          <legend>Servers</legend>
          {servers.map((s) => (
            <Check
              key={s.id}
              name="server_ids"
              value={s.id}
              label={s.name}
              hint={s.hostname}
              defaultChecked={p.servers.some((own) => own.id === s.id)}
            />
          ))}
        </fieldset>
        <Select
          label="Server for new pull requests"
          name="default_server_id"
          defaultValue={p.default_server_id ?? p.servers[0]?.id}
        >
          {servers.map((s) => (
            <option key={s.id} value={s.id}>
              {s.name}
            </option>
          ))}
        </Select>
        {members.length > 1 && (
          <Select
            label="Owner"
            name="owner_id"
            defaultValue={p.owner.id ?? ''}
            hint="Owns the environments of pull requests too."
          >
            {members.map((m) => (
              <option key={m.user.id} value={m.user.id}>
                {m.user.name}
              </option>
            ))}
          </Select>
        )}
      </Form>
    </Section>
  )
}
