// The form of a new project. The recipe follows the repository's file, and each server says whether it can run it.
import { useState } from 'react'
import { api, change } from '../../../api.ts'
import { Check, Select, Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Section } from '../../../components/page.tsx'
import type { Server } from '../../../data.ts'
import { useOrganization } from '../../../organization.ts'
import { FilePreview, type Preview } from './file-preview.tsx'
import { type Picked, RepositoryPicker } from './repository-picker.tsx'
import type { Plan } from './set-up.tsx'

type Created = Awaited<ReturnType<typeof api.project.create.mutate>>
type Recipe = 'docker' | 'manual'

interface Props {
  servers: readonly Server[]
  onMade(made: Created, plan: Plan): Promise<void>
}

export function Asking({ servers, onMade }: Props) {
  const organization = useOrganization()
  const [picked, pick] = useState<Picked>()
  const [preview, setPreview] = useState<Preview>()
  const [recipe, setRecipe] = useState<Recipe>('docker')
  const found = preview?.file?.recipes ?? []
  const [only] = found
  const decided = found.length === 1 && only ? only : recipe
  const [domain, setDomain] = useState('')
  return (
    <>
      {organization && (
        <Section title="1. Repository">
          <RepositoryPicker
            organizationId={organization.id}
            picked={picked?.fullName}
            onPick={(one) => {
              pick(one)
              setPreview(undefined)
            }}
          />
          {picked && (
            <FilePreview
              key={picked.fullName}
              picked={picked}
              onRead={(read) => {
                setPreview(read)
                const guessed = read.file?.recipes[0] ?? read.guess?.recipe
                if (guessed) setRecipe(guessed)
              }}
            />
          )}
        </Section>
      )}
      <Section title="2. Project">
        <Form
          submit="Create and set up"
          label="New project"
          send={async (data) => {
            const repo_url = text(data, 'repo_url').trim()
            const server_ids = data.getAll('server_ids').map(Number)
            const asked = {
              name: text(data, 'name').trim(),
              repo_url,
              domain: text(data, 'domain').trim(),
              server_ids,
              default_recipe: decided,
            }
            const context = { organization: organization?.id }
            const made = await change(api.project.create.mutate(asked, { context }))
            const isPicked = picked !== undefined && repo_url.includes(picked.fullName)
            await onMade(made, isPicked ? { connectionId: picked.connectionId } : {})
          }}
        >
          <Text
            key={`name of ${picked?.url}`}
            label="Name"
            name="name"
            defaultValue={picked?.name}
            maxLength={64}
            required
          />
          <Text
            key={picked?.url}
            label="Repository"
            name="repo_url"
            defaultValue={picked?.url}
            placeholder="git@github.com:acme/shop.git"
            hint="An ssh or https address."
            spellCheck={false}
            required
          />
          <Text
            label="Domain"
            name="domain"
            placeholder="shop.example.com"
            hint={`Environments get names below it: pr-42.${domain || 'shop.example.com'}. Point *.${domain || 'shop.example.com'} to the server.`}
            onChange={(event) => setDomain(event.currentTarget.value.trim())}
            spellCheck={false}
            required
          />
          {found.length === 1 ? (
            <p>
              Recipe: <strong>{decided}</strong> <span className="muted">as .service.yml says</span>
            </p>
          ) : (
            <Select
              label="Recipe"
              name="default_recipe"
              value={recipe}
              onChange={(event) => setRecipe(event.currentTarget.value as Recipe)}
              hint="docker builds and runs containers; manual runs the commands of .service.yml."
            >
              <option value="docker">docker</option>
              <option value="manual">manual</option>
            </Select>
          )}
          <fieldset className="stack-small" aria-label="Servers">
            <legend>Servers</legend>
            {servers.map((s) => (
              <Check
                key={s.id}
                name="server_ids"
                value={s.id}
                label={s.name}
                hint={readiness(s, decided)}
                defaultChecked={s.id === best(servers, decided)?.id}
              />
            ))}
          </fieldset>
        </Form>
      </Section>
    </>
  )
}

const canRun = (s: Server, recipe: Recipe): boolean => s.recipes.includes(recipe)

/** Whether a server can run the project, and otherwise why not. */
function readiness(s: Server, recipe: Recipe): string {
  if (s.joined_at === null) return `${s.hostname}. Has not joined yet.`
  if (!canRun(s, recipe)) {
    const missing = s.parts.find((part) => part.reason && part.name.includes(recipe))?.reason
    return `${s.hostname}. Cannot run ${recipe} yet. ${missing ?? ''}`.trim()
  }
  if (s.status !== 'online') return `${s.hostname}. Can run ${recipe}, but is ${s.status} now.`
  return `${s.hostname}. Ready for ${recipe}.`
}

/** Prefers a server that can deploy now. */
const best = (list: readonly Server[], recipe: Recipe): Server | undefined =>
  list.find((s) => s.status === 'online' && canRun(s, recipe)) ??
  list.find((s) => s.status === 'online') ??
  list.find((s) => s.joined_at !== null) ??
  list[0]
