// Settings of an environment: one form with one "Save changes". Protection makes title, server and domain read-only, for
// the owner too.
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { api, change } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Check, Secret, Select, Text } from '../../components/forms/field.tsx'
import { isChecked, text } from '../../components/forms/form.tsx'
import { SideNav } from '../../components/navigation/side-nav.tsx'
import { Section } from '../../components/page.tsx'
import { Note } from '../../components/states.tsx'
import { type Environment, useMembers, useProject } from '../../data.ts'
import { usePermission } from '../../organization.ts'
import { isReadOnly, lockReason } from './bits.tsx'
import { EnvironmentFrame } from './frame.tsx'
import css from './settings.module.css'
import { SettingsForm } from './settings-form.tsx'

const LINKS = [
  { to: '#general', label: 'General' },
  { to: '#access', label: 'Access' },
  { to: '#protection', label: 'Protection' },
  { to: '#notifications', label: 'Notifications' },
  { to: '#danger', label: 'Danger zone' },
]

export function EnvironmentSettings() {
  return (
    <EnvironmentFrame tab="Settings">
      {(e) =>
        isReadOnly(e) ? (
          <Form environment={e} />
        ) : (
          <SideNav label="Settings" links={LINKS}>
            <Form environment={e} />
            <Danger environment={e} />
          </SideNav>
        )
      }
    </EnvironmentFrame>
  )
}

/** What the form shows; it starts again when one of these changed and nothing is typed. */
const SHOWN = [
  ...([
    'title',
    'domain',
    'branch',
    'server',
    'recipe',
    'recipe_inherited',
    'auto_deploy',
  ] as const),
  ...(['sticky', 'protected', 'owner', 'basic_auth', 'watching'] as const),
]

const editReason = (e: Environment): string | undefined =>
  e.may.includes('edit') ? undefined : 'Your role doesn’t allow changing this environment.'

/** In a protected environment of another owner, users still choose their own emails. */
const reasonOf = (e: Environment): string | undefined => (isReadOnly(e) ? undefined : editReason(e))

function Form({ environment }: { environment: Environment }) {
  return (
    <SettingsForm
      shown={environment}
      version={JSON.stringify(SHOWN.map((name) => environment[name]))}
      reason={reasonOf(environment)}
      send={save}
    >
      {(e) => (
        <>
          {isReadOnly(e) || (
            <>
              <General environment={e} />
              <Access environment={e} />
              <Protection environment={e} />
            </>
          )}
          <Notifications environment={e} />
        </>
      )}
    </SettingsForm>
  )
}

/** Sends only what differs from what the form started with: some fields are refused while a deployment runs. */
async function save(data: FormData, e: Environment): Promise<void> {
  if (!isReadOnly(e)) {
    const changes = changesOf(data, e)
    const auth = authOf(data, e)
    if (auth) {
      await change(api.environment.setBasicAuth.mutate({ environment_id: e.id, basic_auth: auth }))
    }
    if (Object.keys(changes).length > 0) {
      await change(api.environment.update.mutate({ environment_id: e.id, ...changes }))
    }
  }
  const watching = isChecked(data, 'watching')
  if (watching !== e.watching) {
    await change(api.environment.watch.mutate({ environment_id: e.id, watching }))
  }
}

function changesOf(data: FormData, e: Environment) {
  const isOn = (name: string): boolean => isChecked(data, name)
  const isPull = e.type === 'pull_request'
  const fixed = e.protected
  const recipe = text(data, 'recipe')
  const [server, owner] = [Number(text(data, 'server_id')), Number(text(data, 'owner_id'))]
  const title = text(data, 'title')
  const domain = text(data, 'domain').trim()
  const branch = text(data, 'branch').trim()
  return {
    ...(fixed || title === e.title ? {} : { title }),
    ...(fixed || !server || server === e.server.id ? {} : { server_id: server }),
    ...(fixed || isPull || domain === e.domain ? {} : { domain }),
    ...(isPull || branch === e.branch ? {} : { branch }),
    ...(recipe === (e.recipe_inherited ? '' : e.recipe)
      ? {}
      : { recipe: recipe === '' ? null : (recipe as 'docker' | 'manual') }),
    ...(owner && owner !== e.owner.id ? { owner_id: owner } : {}),
    ...(isOn('auto_deploy') === e.auto_deploy ? {} : { auto_deploy: isOn('auto_deploy') }),
    ...(isOn('sticky') === e.sticky ? {} : { sticky: isOn('sticky') }),
    ...(isOn('protected') === e.protected ? {} : { protected: isOn('protected') }),
  }
}

type Auth = { mode: 'own'; username: string; password: string } | { mode: 'inherit' | 'off' }

/** Undefined: as it was. An own user and password are sent when a password is typed. */
function authOf(data: FormData, e: Environment): Auth | undefined {
  const mode = text(data, 'basic_auth.mode')
  const [username, password] = [
    text(data, 'basic_auth.username'),
    text(data, 'basic_auth.password'),
  ]
  if (mode === 'own') {
    const isSame = e.basic_auth.mode === 'own' && username === e.basic_auth.username
    return isSame && password === '' ? undefined : { mode, username, password }
  }
  if (mode === e.basic_auth.mode || (mode !== 'inherit' && mode !== 'off')) return undefined
  return { mode }
}

function General({ environment: e }: { environment: Environment }) {
  const servers = useProject(e.project_id).data?.servers ?? [e.server]
  const isPull = e.type === 'pull_request'
  const fixed = e.protected
  const ofPull = isPull ? 'Set by the pull request.' : undefined
  return (
    <Part id="general" title="General">
      {fixed && (
        <Note>Title, server and domain are read-only. Remove protection and save first.</Note>
      )}
      <Text
        label="Title"
        name="title"
        defaultValue={e.title}
        maxLength={100}
        readOnly={fixed}
        required
      />
      <Text
        label="Domain"
        name="domain"
        defaultValue={e.domain}
        readOnly={fixed || isPull}
        hint={ofPull}
        required
      />
      <Text
        label="Branch"
        name="branch"
        defaultValue={e.branch}
        readOnly={isPull}
        hint={ofPull}
        required
      />
      <Select
        label="Server"
        name="server_id"
        defaultValue={e.server.id}
        disabled={fixed}
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
        label="Sticky"
        name="sticky"
        defaultChecked={e.sticky}
        hint="Stays at the top of the project’s list."
      />
    </Part>
  )
}

function Access({ environment: e }: { environment: Environment }) {
  const { basic_auth: now } = e
  const [mode, setMode] = useState(now.mode)
  return (
    <Part id="access" title="Access">
      <Select
        label="Basic Auth"
        name="basic_auth.mode"
        value={mode}
        hint={
          now.enabled
            ? `Visitors sign in as ${now.username}. Changes apply at once.`
            : 'The address is public. Changes apply at once.'
        }
        onChange={(event) => setMode(event.currentTarget.value as typeof mode)}
      >
        <option value="inherit">Inherit from project</option>
        <option value="own">Own user and password</option>
        <option value="off">Public</option>
      </Select>
      {mode === 'own' && (
        <>
          <Text
            label="User"
            name="basic_auth.username"
            defaultValue={now.username ?? ''}
            maxLength={64}
            required
          />
          <Secret
            label="Password"
            name="basic_auth.password"
            hint={
              now.mode === 'own' ? '8 to 72 characters. Empty: unchanged.' : '8 to 72 characters.'
            }
            maxLength={72}
            required={now.mode !== 'own'}
          />
        </>
      )}
    </Part>
  )
}

function Protection({ environment: e }: { environment: Environment }) {
  const organizationId = useProject(e.project_id).data?.organization_id
  const members = useMembers(organizationId).data?.members ?? []
  return (
    <Part id="protection" title="Protection">
      <Check
        label="Protected"
        name="protected"
        defaultChecked={e.protected}
        hint={`Only ${e.owner.name} can deploy, change or delete it. Pushes don’t deploy it.`}
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
    </Part>
  )
}

function Notifications({ environment: e }: { environment: Environment }) {
  return (
    <Part id="notifications" title="Notifications">
      <Check
        label="Email me when it is degraded and when it recovers"
        name="watching"
        defaultChecked={e.watching}
        hint={
          e.protected
            ? 'Owners and admins of the organization always get these for a protected environment.'
            : 'Only you get these emails.'
        }
      />
    </Part>
  )
}

/** The anchor of the side navigation. */
function Part({ id, title, children }: { id: string; title: string; children: ReactNode }) {
  return (
    <div id={id}>
      <Section title={title}>{children}</Section>
    </div>
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
    <div id="danger" className={css.part}>
      <Section title="Danger zone" isDanger>
        {!e.protected && (
          <div className="row spread">
            <p>
              Reset deletes containers, volumes and the work directory, then deploys again. Settings
              and variables stay.
            </p>
            <Button
              reason={e.may.includes('reset') ? undefined : (locked ?? 'You can’t reset it now.')}
              onClick={() => ask('reset')}
            >
              Reset environment
            </Button>
          </div>
        )}
        <div className="row spread">
          <p>Delete removes the environment and all its data, on the server and here.</p>
          <Button
            kind="danger"
            reason={e.may.includes('delete') ? undefined : (locked ?? 'You can’t delete it now.')}
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
              reason={e.may.includes('delete') ? undefined : (locked ?? 'You can’t delete it now.')}
              onClick={() => ask('forget')}
            >
              Forget environment
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
            <p>The data in its volumes and work directory is deleted.</p>
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
              {services ? `This stops and removes ${services} on ${e.server.name}. ` : ''}
              Its volumes, variables, backups on that server and the address {e.domain} are deleted
              too.
            </p>
            <label className="row">
              <input
                type="checkbox"
                checked={isForced}
                onChange={(event) => force(event.currentTarget.checked)}
              />
              Skip the repository’s own destroy steps
            </label>
          </Ask>
        )}
        {asking === 'forget' && (
          <Ask
            title={`Forget ${e.identifier}?`}
            submit="Forget environment"
            word={e.identifier}
            onClose={close}
            send={remove({ forget: true })}
            done="Forgotten."
          >
            <p>
              Nothing is stopped on {e.server.name}. Only do this if that server won’t come back.
            </p>
          </Ask>
        )}
      </Section>
    </div>
  )
}
