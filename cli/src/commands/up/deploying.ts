// Follows a deployment to its end, and reads what it left.
import { Environment, Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import type { Target } from '../../client/resolve.ts'
import type { Context } from '../../context.ts'
import type { ExitCode } from '../../terminal/exit.ts'
import { type WaitChoice, waitAndReport } from '../deployments/deploy.ts'

interface End {
  code: ExitCode
  environment: Environment
  rawEnvironment: unknown
  rawTask: unknown
}

export async function followDeployment(
  context: Context,
  api: Api,
  target: Target,
  task: Task,
  wait: WaitChoice,
): Promise<End> {
  // the command prints one document of its own
  const shown = { ...context, screen: { ...context.screen, json: false } }
  const code = await waitAndReport(shown, api, target, task, wait)
  const environment = await api.get(`/api/environments/${task.environment_id}`, Environment)
  const ended = await api.get(`/api/tasks/${task.id}`, Task)
  return {
    code,
    environment: environment.value,
    rawEnvironment: environment.raw,
    rawTask: ended.raw,
  }
}
