// The focal point of an environment's page: its address, the version behind it, and one row of actions.
import { Link } from '@tanstack/react-router'
import { Button, buttonClass } from '../../../components/button.tsx'
import { Icon } from '../../../components/icon.tsx'
import { Menu, MenuLink } from '../../../components/menu.tsx'
import { Time } from '../../../components/time.tsx'
import { say } from '../../../components/toast.tsx'
import { type Environment, type Task, useProject } from '../../../data.ts'
import { commitUrl, short } from '../../../format.ts'
import { DeployButton } from '../bits.tsx'
import { LifecycleMenu, RestartButton } from '../lifecycle.tsx'
import css from './overview.module.css'
import { RollBackButton } from './roll-back.tsx'

const bare = (url: string): string => url.replace(/^https?:\/\//, '').replace(/\/$/, '')

function copy(text: string): void {
  navigator.clipboard.writeText(text).then(
    () => say('Copied.'),
    () => say(`Your browser did not allow copying. The text is: ${text}`),
  )
}

interface HeroProps {
  environment: Environment
  /** Deployments, newest first; undefined: not loaded yet. */
  deployments: readonly Task[] | undefined
}

export function Hero({ environment: e, deployments }: HeroProps) {
  const live = e.deployed && deployments?.find((task) => task.id === e.deployed?.task_id)
  const url = e.commit_sha === null ? null : e.url
  return (
    <section className={css.hero} aria-label="Address and version">
      <div className={css.address}>
        {url ? (
          <a href={url} rel="noreferrer" className={css.link}>
            {bare(url)}
          </a>
        ) : (
          <span className={css.pending}>{e.domain}</span>
        )}
        <Button
          kind="quiet"
          small
          aria-label="Copy address"
          onClick={() => copy(url ?? `https://${e.domain}`)}
        >
          <Icon name="copy" />
        </Button>
      </div>
      <Version environment={e} task={live ?? undefined} />
      <div className={css.actions}>
        <DeployButton environment={e} />
        <Visit environment={e} url={url} />
        <RestartButton environment={e} />
        <RollBackButton environment={e} deployments={deployments} />
        <Link
          to="/environments/$id/logs"
          params={{ id: String(e.id) }}
          className={buttonClass('plain')}
        >
          Logs
        </Link>
        <Shell environment={e} />
        <LifecycleMenu environment={e} />
      </div>
    </section>
  )
}

/** A control plane of before does not name the author of a commit. */
type Authored = Task & { commit_author?: string | null }

function Version({
  environment: e,
  task,
}: {
  environment: Environment
  task: Authored | undefined
}) {
  const project = useProject(e.project_id).data
  const sha = e.commit_sha
  const url = project && sha && commitUrl(project.repo_url, sha, project.repository.provider)
  const subject = task?.commit_message?.split('\n')[0]
  const author = task?.commit_author ?? e.pull_request?.author
  return (
    <div className={css.version}>
      {sha ? (
        <p className={css.commit}>
          {url ? (
            <a href={url} rel="noreferrer">
              <code>{short(sha)}</code>
            </a>
          ) : (
            <code>{short(sha)}</code>
          )}
          {subject && <span className={css.subject}>{subject}</span>}
        </p>
      ) : (
        <p>Not deployed yet</p>
      )}
      <p className={css.facts}>
        {author && <span>{author}</span>}
        <span>
          <code>{e.branch}</code>
        </span>
        {e.pull_request && (
          <a href={e.pull_request.url} rel="noreferrer">
            #{e.pull_request.number} {e.pull_request.title}
          </a>
        )}
        {e.deployed && (
          <Link to="/tasks/$id" params={{ id: String(e.deployed.task_id) }}>
            Deployed <Time at={e.deployed.at} />
          </Link>
        )}
        <Link to="/servers/$id" params={{ id: String(e.server.id) }}>
          {e.server.name}
        </Link>
      </p>
    </div>
  )
}

function Visit({ environment: e, url }: { environment: Environment; url: string | null }) {
  const reachable = e.services.filter((s) => s.url !== null)
  if (!url) return null
  if (reachable.length < 2) {
    return (
      <a href={reachable[0]?.url ?? url} rel="noreferrer" className={buttonClass('plain')}>
        Visit <Icon name="out" size={12} />
      </a>
    )
  }
  return (
    <Menu
      label="Visit"
      kind="plain"
      face={
        <>
          Visit <Icon name="down" size={12} />
        </>
      }
    >
      {reachable.map((s) => (
        <MenuLink key={s.name} href={s.url ?? ''}>
          {s.name}: {bare(s.url ?? '')}
        </MenuLink>
      ))}
    </Menu>
  )
}

/** A terminal is better than a page at being one, so the button gives the command for it. */
function Shell({ environment: e }: { environment: Environment }) {
  const project = useProject(e.project_id).data
  if (!e.commit_sha) return null
  const command = `berth ssh -p ${project?.name ?? e.project_id} -e ${e.identifier}`
  return (
    <Button
      title={`Copies: ${command}`}
      aria-label="Shell: copy the command"
      onClick={() => copy(command)}
    >
      <Icon name="copy" /> Shell
    </Button>
  )
}
