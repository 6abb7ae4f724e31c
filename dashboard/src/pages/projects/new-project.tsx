// A new project: its repository and server, then the connection to its forge, or the two values to enter there by hand,
// shown only once.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { buttonClass } from '../../components/button.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Check, Select, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Page, Section } from '../../components/page.tsx'
import { Empty, Loaded, Note } from '../../components/states.tsx'
import { type Server, useServers } from '../../data.ts'
import { useOrganization, usePermission } from '../../organization.ts'
import { Forge } from './forge.tsx'
import { CheckRepository } from './repository.tsx'
import { type Picked, RepositoryPicker } from './repository-picker.tsx'

type Created = Awaited<ReturnType<typeof api.project.create.mutate>>

/** Created, and the connection that its repository was chosen from. */
interface Made {
  project: Created
  connectionId: number | undefined
}

export function NewProject() {
  const [made, setMade] = useState<Made>()
  return made ? <Next made={made} /> : <Asking onMade={setMade} />
}

function Asking({ onMade }: { onMade(made: Made): void }) {
  const servers = useServers()
  const organization = useOrganization()
  const mayConnect = usePermission('project:write')
  const [picked, pick] = useState<Picked>()
  return (
    <Page title="New project" trail={<Link to="/">Projects</Link>}>
      <Loaded query={servers} what="Servers">
        {({ servers: list }) =>
          list.length === 0 ? (
            <Empty title="A project needs a server.">
              <p>
                <Link to="/servers" search={{ add: 'true' }}>
                  Add a server first
                </Link>
                , then come back.
              </p>
            </Empty>
          ) : (
            <Section title="Repository and address">
              <Form
                submit="Create project"
                send={async (data) => {
                  const asked = {
                    name: text(data, 'name'),
                    repo_url: text(data, 'repo_url').trim(),
                    domain: text(data, 'domain').trim(),
                    server_ids: data.getAll('server_ids').map(Number),
                    default_recipe: text(data, 'default_recipe') as 'docker' | 'manual',
                  }
                  const context = { organization: organization?.id }
                  const project = await change(api.project.create.mutate(asked, { context }))
                  const isPicked = picked?.url === asked.repo_url
                  onMade({ project, connectionId: isPicked ? picked.connectionId : undefined })
                }}
              >
                {organization && mayConnect && (
                  <RepositoryPicker organizationId={organization.id} onPick={pick} />
                )}
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
                  hint="An ssh or https address. For a private repository, the next page shows a deploy key."
                  spellCheck={false}
                  required
                />
                <Text
                  label="Domain"
                  name="domain"
                  placeholder="shop.example.com"
                  hint="Environments get names below it: pr-42.shop.example.com. Point *.shop.example.com to the server."
                  spellCheck={false}
                  required
                />
                <fieldset className="stack-small" aria-label="Servers">
                  <legend>Servers</legend>
                  {list.map((s) => (
                    <Check
                      key={s.id}
                      name="server_ids"
                      value={s.id}
                      label={s.name}
                      hint={s.joined_at ? s.hostname : `${s.hostname}, never joined`}
                      defaultChecked={s.id === first(list)?.id}
                    />
                  ))}
                </fieldset>
                <Select
                  label="Recipe"
                  name="default_recipe"
                  hint="docker builds and runs containers; manual runs the commands of .service.yml."
                >
                  <option value="docker">docker</option>
                  <option value="manual">manual</option>
                </Select>
              </Form>
            </Section>
          )
        }
      </Loaded>
    </Page>
  )
}

/** Prefers a server that can deploy now. */
const first = (list: readonly Server[]): Server | undefined =>
  list.find((s) => s.status === 'online') ?? list.find((s) => s.joined_at !== null) ?? list[0]

function Next({ made: { project, connectionId } }: { made: Made }) {
  const id = String(project.id)
  return (
    <Page title={`${project.name} is created`} trail={<Link to="/">Projects</Link>}>
      <Forge project={project} reason={undefined} first={connectionId} />
      <details open={connectionId === undefined}>
        <summary>Without a token: set it up by hand</summary>
        <Note kind="warn">Copy it now. You won't see it again. You can regenerate it later.</Note>
        <Section title="Webhook">
          <p>At the repository's host, add a webhook for pushes and pull requests (JSON).</p>
          <CopyField label="webhook address" text={project.webhook.url} />
          <CopyField label="webhook secret" text={project.webhook_secret} />
        </Section>
        <Section title="Deploy key">
          <p>For a private repository: add this as a read-only deploy key.</p>
          <CopyField label="deploy key" text={project.repo_public_key} />
        </Section>
      </details>
      <Section title="Check">
        <CheckRepository id={project.id} />
      </Section>
      <div className="row">
        <Link to="/projects/$id" params={{ id }} className={buttonClass('main')}>
          Open {project.name}
        </Link>
      </div>
    </Page>
  )
}
