// The flags of `berth up`. Values that no server would take are refused before anything is asked or made.
import { EnvironmentCreate, ProjectCreate } from '@berth/shared/api'
import { flagOn, flagText, type Invocation } from '../../context.ts'
import { parseWait } from '../deployments/deploy.ts'
import { invalidInput } from '../projects/projects.ts'

export interface UpOptions {
  remote: string | undefined
  repo: string | undefined
  branch: string | undefined
  server: string | undefined
  domain: string | undefined
  recipe: 'docker' | 'manual' | undefined
  varsFrom: string | undefined
  dryRun: boolean
  /** false: never. */
  open: boolean
  timeoutMs: number
  showLog: boolean
}

export function parseUp(invocation: Invocation): UpOptions {
  const { flags, globals } = invocation
  const recipe = flagText(flags, 'recipe')
  const text = (name: string): string | undefined => flagText(flags, name)
  const options = { domain: text('domain'), repo: text('repo'), branch: text('branch') }
  // refused before anything is made
  const checked = ProjectCreate.pick({ domain: true, repo_url: true, name: true })
    .partial()
    .safeParse({
      ...(options.domain === undefined ? {} : { domain: options.domain }),
      ...(options.repo === undefined ? {} : { repo_url: options.repo }),
      ...(globals.project === undefined ? {} : { name: globals.project }),
    })
  if (!checked.success) throw invalidInput(checked.error.issues)
  if (options.branch !== undefined) {
    const branch = EnvironmentCreate.pick({ branch: true }).safeParse({ branch: options.branch })
    if (!branch.success) throw invalidInput(branch.error.issues)
  }
  const wait = parseWait(invocation, true)
  return {
    ...options,
    remote: text('remote'),
    server: text('server'),
    recipe: recipe === 'docker' || recipe === 'manual' ? recipe : undefined,
    varsFrom: text('varsFrom'),
    dryRun: flagOn(flags, 'dryRun'),
    open: flags.open !== false,
    timeoutMs: wait?.timeoutMs ?? 0,
    showLog: flagOn(flags, 'log'),
  }
}
