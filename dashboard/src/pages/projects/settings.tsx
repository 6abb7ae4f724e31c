// Settings of a project: its details, the rules for pull requests, its keys, and its deletion.
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { BasicAuthForm } from '../../components/forms/basic-auth.tsx'
import { Area, Check, Select, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, lines, text } from '../../components/forms/form.tsx'
import { LimitsForm } from '../../components/forms/limits-form.tsx'
import { Section } from '../../components/page.tsx'
import { Status } from '../../components/status.tsx'
import { type Project, useEnvironments, useMembers, useServers } from '../../data.ts'
import { useMe, usePermission } from '../../organization.ts'
import { ProjectChannels } from '../notices/project-channels.tsx'
import { Forge } from './forge.tsx'
import { ProjectFrame } from './frame.tsx'
import { Registries } from './registries.tsx'
import { Repository } from './repository.tsx'

export function ProjectSettings() {
  return (
    <ProjectFrame tab="Settings">
      {(p) => (
        <>
          <General
            key={keyOf(p, [
              'name',
              'repo_url',
              'domain',
              'default_branch',
              'default_recipe',
              'servers',
              'default_server_id',
              'owner',
            ])}
            project={p}
          />
          <PullRequests
            key={keyOf(p, [
              'pull_request_environments',
              'deploy_drafts',
              'auto_deploy',
              'skip_marker',
              'comment_on_pull_requests',
              'fork_pull_requests',
              'pull_request_bases',
              'watch_paths',
              'custom_domains',
              'lost_after_seconds',
            ])}
            project={p}
          />
          <Section title="Visitors">
            <Auth project={p} />
          </Section>
          <ForgeOf project={p} />
          <RepositoryOf project={p} />
          <RegistriesOf project={p} />
          <ProjectChannels project={p} />
          <Limit project={p} />
          <Limits key={keyOf(p, ['limits'])} project={p} />
          <Deletion project={p} />
        </>
      )}
    </ProjectFrame>
  )
}

/** The React key of a form: it resets only when the shown values changed, so typed text stays. */
const keyOf = (p: Project, names: (keyof Project)[]): string =>
  JSON.stringify(names.map((name) => p[name]))

const useReason = (): string | undefined =>
  usePermission('project:write') ? undefined : 'Your role does not let you change this project.'

function General({ project: p }: { project: Project }) {
  const reason = useReason()
  const servers = useServers().data?.servers ?? p.servers
  const members = useMembers(p.organization_id).data?.members ?? []
  return (
    <Section title="General">
      <Form
        submit="Save"
        done="Saved."
        reason={reason}
        label="General"
        send={(data) => {
          const owner = Number(text(data, 'owner_id'))
          return change(
            api.project.update.mutate({
              project_id: p.id,
              name: text(data, 'name'),
              repo_url: text(data, 'repo_url').trim(),
              domain: text(data, 'domain').trim(),
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
          label="Domain"
          name="domain"
          defaultValue={p.domain}
          hint="Environments that exist keep their addresses until they are deployed again."
          spellCheck={false}
          required
        />
        <Text
          label="Default branch"
          name="default_branch"
          defaultValue={p.default_branch}
          required
        />
        <Select label="Recipe" name="default_recipe" defaultValue={p.default_recipe}>
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
          label="Server of new pull requests"
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

function PullRequests({ project: p }: { project: Project }) {
  const reason = useReason()
  return (
    <Section title="Pull requests and pushes">
      <Form
        submit="Save"
        done="Saved."
        reason={reason}
        label="Pull requests and pushes"
        send={(data) =>
          change(
            api.project.update.mutate({
              project_id: p.id,
              pull_request_environments: isChecked(data, 'pull_request_environments'),
              deploy_drafts: isChecked(data, 'deploy_drafts'),
              auto_deploy: isChecked(data, 'auto_deploy'),
              skip_marker: isChecked(data, 'skip_marker'),
              comment_on_pull_requests: isChecked(data, 'comment_on_pull_requests'),
              fork_pull_requests: text(data, 'fork_pull_requests') as 'approve' | 'never',
              pull_request_bases: lines(data, 'pull_request_bases'),
              watch_paths: lines(data, 'watch_paths'),
              custom_domains: lines(data, 'custom_domains'),
              lost_after_seconds: Number(text(data, 'lost_after_seconds')),
            }),
          )
        }
      >
        <Check
          label="An environment for each pull request"
          name="pull_request_environments"
          defaultChecked={p.pull_request_environments}
        />
        <Check label="Also for drafts" name="deploy_drafts" defaultChecked={p.deploy_drafts} />
        <Check
          label="New environments deploy on push"
          name="auto_deploy"
          defaultChecked={p.auto_deploy}
        />
        <Check
          label="Honour [skip deploy] in a commit's message"
          name="skip_marker"
          defaultChecked={p.skip_marker}
        />
        <Check
          label="Comment with the address on pull requests"
          name="comment_on_pull_requests"
          hint="Needs the token below."
          defaultChecked={p.comment_on_pull_requests}
        />
        <Select
          label="Pull requests of forks"
          name="fork_pull_requests"
          defaultValue={p.fork_pull_requests}
          hint="Code from forks runs on your server. It gets only variables that are marked for forks."
        >
          <option value="approve">Each commit has to be approved</option>
          <option value="never">Never</option>
        </Select>
        <Area
          label="Base branches"
          name="pull_request_bases"
          rows={2}
          hint="One pattern per line. ** matches every branch."
          defaultValue={p.pull_request_bases.join('\n')}
        />
        <Area
          label="Watched paths"
          name="watch_paths"
          rows={2}
          hint="Only pushes that change one of these paths deploy. Empty: every push deploys."
          defaultValue={p.watch_paths.join('\n')}
        />
        <Area
          label="Custom domains"
          name="custom_domains"
          rows={2}
          hint="Host names outside of the project's domain that .service.yml may use, one per line."
          defaultValue={p.custom_domains.join('\n')}
        />
        <Text
          label="A deployment counts as lost when its server is silent for (seconds)"
          name="lost_after_seconds"
          type="number"
          min={60}
          max={86400}
          defaultValue={p.lost_after_seconds}
        />
      </Form>
    </Section>
  )
}

function Auth({ project: p }: { project: Project }) {
  const reason = useReason()
  return (
    <BasicAuthForm
      key={keyOf(p, ['basic_auth'])}
      now={p.basic_auth}
      inherits={false}
      reason={reason}
      send={(asked) => {
        const basic_auth = asked.mode === 'own' ? asked : { mode: 'off' as const }
        return change(api.project.setBasicAuth.mutate({ project_id: p.id, basic_auth }))
      }}
    />
  )
}

function ForgeOf({ project }: { project: Project }) {
  return <Forge project={project} reason={useReason()} />
}

function RepositoryOf({ project }: { project: Project }) {
  return <Repository project={project} reason={useReason()} />
}

function RegistriesOf({ project }: { project: Project }) {
  return <Registries owner={{ project_id: project.id }} reason={useReason()} />
}

function Limit({ project: p }: { project: Project }) {
  const isAdmin = useMe().data?.is_platform_admin ?? false
  return (
    <Section title="Environment limit">
      <Form
        submit="Save"
        done="Saved."
        isRow
        label="Environment limit"
        reason={isAdmin ? undefined : 'Only a platform administrator changes it.'}
        send={(data) =>
          change(
            api.project.setLimit.mutate({ project_id: p.id, limit: Number(text(data, 'limit')) }),
          )
        }
      >
        <Text
          label="Environment limit"
          name="limit"
          type="number"
          min={1}
          max={500}
          defaultValue={p.environment_limit}
          readOnly={!isAdmin}
        />
      </Form>
    </Section>
  )
}

function Limits({ project: p }: { project: Project }) {
  return (
    <LimitsForm
      now={p.limits}
      usual={null}
      hint="Memory, processors, processes and disk of each environment. Empty: the limits of its server."
      reason={useReason()}
      send={(limits) => change(api.project.update.mutate({ project_id: p.id, limits }))}
    />
  )
}

function Deletion({ project: p }: { project: Project }) {
  const [isAsking, ask] = useState(false)
  const reason = useReason()
  const navigate = useNavigate()
  const list = useEnvironments(p.id).data?.environments ?? []
  const guarded = list.filter((e) => e.protected)
  if (p.status === 'deleting') {
    return (
      <Section title="Deletion" isDanger>
        <p>What is left to remove:</p>
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
    <Section title="Danger" isDanger>
      <div className="row spread">
        <p>Deletes the project, its environments with their data, variables and history.</p>
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
            if (list.length === 0) await navigate({ to: '/' })
          }}
          done="The project is being deleted."
        >
          <p>
            {list.length === 0
              ? 'It has no environments.'
              : `Stopped and removed: ${list.map((e) => e.identifier).join(', ')}.`}
          </p>
        </Ask>
      )}
    </Section>
  )
}
