// Settings of an environment. Protection makes its title, server and domain read-only, for its owner too.
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { BasicAuthForm } from '../../components/forms/basic-auth.tsx'
import { Check, Select, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, text } from '../../components/forms/form.tsx'
import { Section } from '../../components/page.tsx'
import { Note } from '../../components/states.tsx'
import { type Environment, useMembers, useProject } from '../../data.ts'
import { usePermission } from '../../organization.ts'
import { isReadOnly, lockReason } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'

export function EnvironmentSettings() {
  return (
    <EnvironmentFrame tab="Settings">
      {(e) => (
        <>
          {isReadOnly(e) || <Changeable environment={e} />}
          <Notifications key={keyOf(e, ['watching'])} environment={e} />
          {isReadOnly(e) || <Danger environment={e} />}
        </>
      )}
    </EnvironmentFrame>
  )
}

function Changeable({ environment: e }: { environment: Environment }) {
  return (
    <>
      <General
        key={keyOf(e, [
          'title',
          'domain',
          'branch',
          'server',
          'recipe',
          'recipe_inherited',
          'auto_deploy',
          'sticky',
          'protected',
        ])}
        environment={e}
      />
      <Protection key={keyOf(e, ['owner', 'protected'])} environment={e} />
      <Section title="Visitors">
        <BasicAuthForm
          key={keyOf(e, ['basic_auth'])}
          now={e.basic_auth}
          inherits
          reason={editReason(e)}
          send={(basic_auth) =>
            change(api.environment.setBasicAuth.mutate({ environment_id: e.id, basic_auth }))
          }
        />
      </Section>
    </>
  )
}

/** The React key of a form: it resets only when the shown values changed, so typed text stays. */
const keyOf = (e: Environment, names: (keyof Environment)[]): string =>
  JSON.stringify(names.map((name) => e[name]))

const editReason = (e: Environment): string | undefined =>
  e.may.includes('edit') ? undefined : 'Your role does not let you change this environment.'

function General({ environment: e }: { environment: Environment }) {
  const servers = useProject(e.project_id).data?.servers ?? [e.server]
  const isPull = e.type === 'pull_request'
  const guard = e.protected
  return (
    <Section title="General">
      {guard && (
        <Note>Title, server and domain are read-only. Remove protection and save first.</Note>
      )}
      <Form
        submit="Save"
        done="Saved."
        reason={editReason(e)}
        label="General"
        send={(data) => {
          const recipe = text(data, 'recipe')
          const now = e.recipe_inherited ? '' : e.recipe
          const server = Number(text(data, 'server_id'))
          const title = text(data, 'title')
          const domain = text(data, 'domain').trim()
          const branch = text(data, 'branch').trim()
          // sends only changes: some fields are refused while a deployment runs
          return change(
            api.environment.update.mutate({
              environment_id: e.id,
              ...(guard || title === e.title ? {} : { title }),
              ...(guard || !server || server === e.server.id ? {} : { server_id: server }),
              ...(guard || isPull || domain === e.domain ? {} : { domain }),
              ...(isPull || branch === e.branch ? {} : { branch }),
              ...(recipe === now
                ? {}
                : { recipe: recipe === '' ? null : (recipe as 'docker' | 'manual') }),
              auto_deploy: isChecked(data, 'auto_deploy'),
              sticky: isChecked(data, 'sticky'),
            }),
          )
        }}
      >
        <Text
          label="Title"
          name="title"
          defaultValue={e.title}
          maxLength={100}
          readOnly={guard}
          required
        />
        <Text
          label="Domain"
          name="domain"
          defaultValue={e.domain}
          readOnly={guard || isPull}
          hint={isPull ? 'Fixed for a pull request.' : undefined}
          required
        />
        <Text
          label="Branch"
          name="branch"
          defaultValue={e.branch}
          readOnly={isPull}
          hint={isPull ? 'Fixed for a pull request.' : undefined}
          required
        />
        <Select
          label="Server"
          name="server_id"
          defaultValue={e.server.id}
          disabled={guard}
          hint="Takes effect on the next deployment, then the old copy is removed."
        >
          {servers.map((s) => (
            <option key={s.id} value={s.id}>
              {s.name}
            </option>
          ))}
        </Select>
        <Select label="Recipe" name="recipe" defaultValue={e.recipe_inherited ? '' : e.recipe}>
          <option value="">Inherit from project</option>
          <option value="docker">docker</option>
          <option value="manual">manual</option>
        </Select>
        <Check label="Deploy on push" name="auto_deploy" defaultChecked={e.auto_deploy} />
        <Check
          label="Sticky: stays at the top of the list"
          name="sticky"
          defaultChecked={e.sticky}
        />
      </Form>
    </Section>
  )
}

function Protection({ environment: e }: { environment: Environment }) {
  const organizationId = useProject(e.project_id).data?.organization_id
  const members = useMembers(organizationId).data?.members ?? []
  return (
    <Section title="Owner and protection">
      <Form
        submit="Save"
        done="Saved."
        reason={editReason(e)}
        label="Owner and protection"
        send={(data) => {
          const owner = Number(text(data, 'owner_id'))
          return change(
            api.environment.update.mutate({
              environment_id: e.id,
              protected: isChecked(data, 'protected'),
              ...(owner && owner !== e.owner.id ? { owner_id: owner } : {}),
            }),
          )
        }}
      >
        <Check
          label="Protected"
          name="protected"
          defaultChecked={e.protected}
          hint={`Only ${e.owner.name} can then deploy, change or delete it. Pushes do not deploy it.`}
        />
        <Select label="Owner" name="owner_id" defaultValue={e.owner.id ?? ''}>
          {members.some((m) => m.user.id === e.owner.id) || (
            <option value={e.owner.id ?? ''}>{e.owner.name}</option>
          )}
          {members.map((m) => (
            <option key={m.user.id} value={m.user.id}>
              {m.user.name}
            </option>
          ))}
        </Select>
      </Form>
    </Section>
  )
}

function Notifications({ environment: e }: { environment: Environment }) {
  return (
    <Section title="Notifications">
      <Form
        submit="Save"
        done="Saved."
        label="Notifications"
        send={(data) => {
          const watching = isChecked(data, 'watching')
          return change(api.environment.watch.mutate({ environment_id: e.id, watching }))
        }}
      >
        <Check
          label="Mail me when this environment is degraded, and when it has recovered"
          name="watching"
          defaultChecked={e.watching}
          hint={
            e.protected
              ? 'Owners and admins of the organization get these mails anyway, because it is protected.'
              : 'Only you get these mails.'
          }
        />
      </Form>
    </Section>
  )
}

function Danger({ environment: e }: { environment: Environment }) {
  const [asking, ask] = useState<'reset' | 'delete' | 'forget'>()
  const navigate = useNavigate()
  const mayForget = usePermission('server:write')
  const close = () => ask(undefined)
  const locked = lockReason(e)
  const services = e.services.map((s) => s.name).join(', ')
  const leave = () => navigate({ to: '/projects/$id', params: { id: String(e.project_id) } })
  const remove = (more: { force?: boolean; forget?: boolean }) => async () => {
    await change(
      api.environment.delete.mutate({ environment_id: e.id, confirm: e.identifier, ...more }),
    )
    await leave()
  }
  const [isForced, force] = useState(false)
  return (
    <Section title="Danger" isDanger>
      {!e.protected && (
        <div className="row spread">
          <p>
            Reset removes containers, volumes and the work directory, then deploys again. Settings
            and variables stay.
          </p>
          <Button
            reason={e.may.includes('reset') ? undefined : (locked ?? 'It cannot be reset now.')}
            onClick={() => ask('reset')}
          >
            Reset environment
          </Button>
        </div>
      )}
      <div className="row spread">
        <p>Delete removes the environment with all its data, on the server and here.</p>
        <Button
          kind="danger"
          reason={e.may.includes('delete') ? undefined : (locked ?? 'It cannot be deleted now.')}
          onClick={() => ask('delete')}
        >
          Delete environment
        </Button>
      </div>
      {mayForget && (
        <div className="row spread">
          <p className="muted">
            Forget removes the environment here only. Use it when its server will not return.
          </p>
          <Button
            small
            reason={e.may.includes('delete') ? undefined : (locked ?? 'It cannot be deleted now.')}
            onClick={() => ask('forget')}
          >
            Forget it
          </Button>
        </div>
      )}
      {asking === 'reset' && (
        <Ask
          title={`Reset ${e.identifier}?`}
          submit="Reset environment"
          word={e.identifier}
          onClose={close}
          send={() =>
            change(api.environment.reset.mutate({ environment_id: e.id, confirm: e.identifier }))
          }
          done="Reset started."
        >
          <p>Data in its volumes and its work directory is lost.</p>
        </Ask>
      )}
      {asking === 'delete' && (
        <Ask
          title={`Delete ${e.identifier}?`}
          submit="Delete environment"
          word={e.identifier}
          onClose={close}
          send={remove({ force: isForced })}
          done="The environment is being removed."
        >
          <p>
            {services ? `Stopped and removed on ${e.server.name}: ${services}. ` : ''}
            Its volumes, variables, backups on that server and address {e.domain} go too.
          </p>
          <label className="row">
            <input
              type="checkbox"
              checked={isForced}
              onChange={(event) => force(event.currentTarget.checked)}
            />
            Remove anyway: skip the repository's own destroy steps
          </label>
        </Ask>
      )}
      {asking === 'forget' && (
        <Ask
          title={`Forget ${e.identifier}?`}
          submit="Forget it"
          word={e.identifier}
          onClose={close}
          send={remove({ forget: true })}
          done="Forgotten."
        >
          <p>Nothing is stopped on {e.server.name}. Do this only when it is gone for good.</p>
        </Ask>
      )}
    </Section>
  )
}
