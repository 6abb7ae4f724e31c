// The way from an empty installation to the first preview. Each step ticks itself; the next one is open, with the
// client's command beside it. The user can dismiss the list.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { Button, buttonClass } from '../../../components/button.tsx'
import { CopyField } from '../../../components/copy.tsx'
import { Icon } from '../../../components/icon.tsx'
import { remembered } from '../../../stores.ts'
import css from './projects.module.css'
import { type Known, type StepsDone, stepsDone } from './watched.ts'

interface Step {
  of: keyof StepsDone
  title: string
  why: string
  command: string
  to?: string
  button?: string
}

const STEPS: readonly Step[] = [
  {
    of: 'server',
    title: 'Add a server',
    why: 'A Linux machine of yours. Its agent connects to Berth, so it needs no open port for that.',
    command: 'berth server add fra-1 --hostname fra-1.example.com',
    to: '/servers?add=true',
    button: 'Add a server',
  },
  {
    of: 'forge',
    title: 'Connect a forge',
    why: 'With a token for GitHub, GitLab, Gitea, Forgejo or Bitbucket, Berth adds deploy keys and webhooks by itself.',
    command: 'berth project connect shop',
    to: '/org/settings',
    button: 'Connect a forge',
  },
  {
    of: 'project',
    title: 'Create a project',
    why: 'Choose a repository, a domain and a server.',
    command:
      'berth project create shop --repo git@github.com:acme/shop.git --domain shop.example.com --server fra-1',
    to: '/projects/new',
    button: 'Create a project',
  },
  {
    of: 'deployment',
    title: 'Deploy it',
    why: 'Create an environment for a branch, then deploy.',
    command: 'berth env create production --branch main && berth deploy -e production --wait',
  },
  {
    of: 'preview',
    title: 'Open a pull request',
    why: 'Berth creates an environment for it, with its own address.',
    command: 'git switch -c try-berth && git push -u origin try-berth',
  },
]

interface Props extends Known {
  organizationId: number
  /** To forges. */
  connections: number
}

export function FirstRun({ organizationId, connections, ...known }: Props) {
  const kept = remembered(`berth-first-run-${organizationId}`)
  const [isDismissed, dismiss] = useState(kept.get() === 'done')
  if (isDismissed || known.overview === undefined) return null
  const done = stepsDone(known, connections)
  const count = STEPS.filter((step) => done[step.of]).length
  if (count === STEPS.length) return null
  const next = STEPS.find((step) => !done[step.of])
  const project = known.projects[0]
  return (
    <section className={css.first} aria-labelledby="first-run">
      <div className="row spread">
        <h2 id="first-run">
          Get started <span className="muted">{`${count} of ${STEPS.length}`}</span>
        </h2>
        <Button
          kind="quiet"
          small
          onClick={() => {
            kept.set('done')
            dismiss(true)
          }}
        >
          Dismiss
        </Button>
      </div>
      <ol className={css.steps}>
        {STEPS.map((step, n) => (
          <li key={step.of} className={css.step} data-done={done[step.of] || undefined}>
            <span className={done[step.of] ? css.done : css.number}>
              {done[step.of] ? <Icon name="check" /> : n + 1}
            </span>
            <div className="stack-small">
              <p className={css.stepTitle}>
                {step.title}
                {done[step.of] && <span className="visually-hidden"> (done)</span>}
              </p>
              {step === next && (
                <>
                  <p className="muted">{step.why}</p>
                  <CopyField label="command" text={step.command} />
                  <StepLink step={step} project={project} />
                </>
              )}
            </div>
          </li>
        ))}
      </ol>
    </section>
  )
}

function StepLink({
  step,
  project,
}: {
  step: Step
  project: Known['projects'][number] | undefined
}) {
  const to =
    step.to ?? (step.of === 'deployment' && project ? `/projects/new?project=${project.id}` : null)
  if (to === null) return null
  return (
    <div className="row">
      <Link to={to} className={buttonClass(project ? 'plain' : 'main')}>
        {step.button ?? 'Deploy'}
      </Link>
    </div>
  )
}
