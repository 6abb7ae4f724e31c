// A project that was just created, on its way to the first deployment: key and webhook at the forge, a repository that
// can be read, an environment. Every row shows the state on the server, so a reload loses nothing.
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef } from 'react'
import { api, change, problemOf, trpc } from '../../../api.ts'
import { buttonClass } from '../../../components/button.tsx'
import { CopyField } from '../../../components/copy.tsx'
import { Icon } from '../../../components/icon.tsx'
import { Page } from '../../../components/page.tsx'
import { Loaded, Note } from '../../../components/states.tsx'
import { type Project, useEnvironments, useProject } from '../../../data.ts'
import { useOrganizationOf } from '../../../organization.ts'
import { NotFound } from '../../not-found.tsx'
import { OneTimeSecret } from '../../secrets/one-time-secret.tsx'
import { Forge } from '../forge.tsx'
import { CheckRepository } from '../repository.tsx'
import { FirstDeployment } from './first-deployment.tsx'
import css from './new.module.css'

/** What the page does by itself right after the creation; a reload does nothing by itself. */
export interface Plan {
  /** The connection that the repository was chosen from. */
  connectionId?: number
}

interface Props {
  id: number
  /** The address of the webhook secret, for a set-up by hand. */
  secret?: string
  plan?: Plan
}

export function SetUp({ id, ...rest }: Props) {
  const project = useProject(id)
  useOrganizationOf(project.data?.organization_id)
  return (
    <Loaded
      query={project}
      what="The project"
      missing={<NotFound />}
      frame={(state) => <Page title="New project">{state}</Page>}
    >
      {(p) => (
        <Page
          title={`Set up ${p.name}`}
          trail={<Link to="/">Projects</Link>}
          actions={
            <Link to="/projects/$id" params={{ id: String(p.id) }} className={buttonClass('plain')}>
              Open {p.name}
            </Link>
          }
        >
          <Steps project={p} {...rest} />
        </Page>
      )}
    </Loaded>
  )
}

function Steps({ project: p, secret, plan }: Omit<Props, 'id'> & { project: Project }) {
  const forge = useQuery(trpc.forge.ofProject.queryOptions({ project_id: p.id })).data
  const environments = useEnvironments(p.id).data?.environments ?? []
  const connect = useMutation({
    mutationFn: (connectionId: number) =>
      change(
        api.forge.connectProject.mutate({
          project_id: p.id,
          with: { connection_id: connectionId },
        }),
      ),
  })
  const isBegun = useRef(false)
  const { mutate } = connect
  useEffect(() => {
    if (isBegun.current || plan?.connectionId === undefined) return
    isBegun.current = true
    mutate(plan.connectionId)
  }, [plan, mutate])
  const isConnected = forge?.connected === true && forge.status !== 'broken'
  const isReadable = p.repository.reachable === true
  const first = environments.at(-1)
  return (
    <ol className={css.steps}>
      <Step title="Project created" state="done">
        <p className="muted">
          {p.repo_url} · {p.domain}
        </p>
      </Step>
      <Step
        title="Key and webhook"
        state={isConnected ? 'done' : connect.isPending ? 'busy' : 'open'}
      >
        {connect.isPending ? (
          <p role="status">Installing the deploy key and the webhook at the forge…</p>
        ) : isConnected ? (
          <p className="muted">
            {forge.status === 'ok'
              ? 'Installed at the forge and checked.'
              : 'Installed at the forge. Berth checks it now.'}
          </p>
        ) : (
          <>
            {connect.error && <Note kind="bad">{problemOf(connect.error).message}</Note>}
            <Forge project={p} reason={undefined} first={plan?.connectionId} />
            <details open={secret !== undefined}>
              <summary>Set it up by hand</summary>
              <ByHand project={p} {...(secret ? { secret } : {})} />
            </details>
          </>
        )}
      </Step>
      <Step title="Repository" state={isReadable ? 'done' : 'open'}>
        {p.repository.error && <Note kind="bad">{p.repository.error.message}</Note>}
        <CheckRepository id={p.id} isAutomatic={isConnected && plan !== undefined} />
      </Step>
      <Step
        title="First deployment"
        state={first?.deployed ? 'done' : first?.locked ? 'busy' : 'open'}
      >
        <FirstDeployment project={p} environment={first} />
      </Step>
    </ol>
  )
}

function ByHand({ project: p, secret }: { project: Project; secret?: string }) {
  const key = useQuery(trpc.project.deployKey.queryOptions({ project_id: p.id }))
  return (
    <div className="stack">
      <p>At the forge, add a webhook for pushes and pull requests (JSON):</p>
      {secret ? (
        <OneTimeSecret id={secret} onDone={() => undefined} isPlain />
      ) : (
        <>
          <CopyField label="webhook address" text={p.webhook.url} />
          <p className="muted small">
            The secret was shown after the creation. You can{' '}
            <Link to="/projects/$id/webhooks" params={{ id: String(p.id) }}>
              regenerate it
            </Link>
            .
          </p>
        </>
      )}
      <p>For a private repository, add this as a read-only deploy key:</p>
      <Loaded query={key} what="The deploy key" lines={1}>
        {(k) => <CopyField label="deploy key" text={k.public_key} />}
      </Loaded>
    </div>
  )
}

interface StepProps {
  title: string
  state: 'done' | 'busy' | 'open'
  children: ReactNode
}

const ICONS = { done: 'check', busy: 'half', open: 'hollow' } as const
const WORDS = { done: 'done', busy: 'in progress', open: 'to do' }

function Step({ title, state, children }: StepProps) {
  return (
    <li className={css.step}>
      <span className={css[state]}>
        <Icon name={ICONS[state]} />
      </span>
      <div className={css.body}>
        <h2>
          {title}
          <span className="visually-hidden"> ({WORDS[state]})</span>
        </h2>
        {children}
      </div>
    </li>
  )
}
