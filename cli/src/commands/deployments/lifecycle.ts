// berth restart, stop and start: change what runs of the last successful deployment, of an environment or one service
// of it, without a deployment.
import { randomUUID } from 'node:crypto'
import type { LifecycleVerb } from '@berth/shared'
import { type LifecycleRequest, Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findTarget, type Target } from '../../client/resolve.ts'
import type { Finished } from '../../client/wait.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { suggest } from '../../terminal/suggest.ts'
import { explainRefusal, finishStart, flagsOf, parseWait, type WaitChoice } from './deploy.ts'

interface LifecycleOptions {
  body: LifecycleRequest
  wait: WaitChoice | null
}

function parseLifecycle(invocation: Invocation): LifecycleOptions {
  const { flags } = invocation
  const service = flagText(flags, 'service')
  const message = flagText(flags, 'message')
  return {
    body: {
      ...(service === undefined ? {} : { service }),
      ...(message === undefined ? {} : { message }),
    },
    wait: parseWait(invocation, flagOn(flags, 'wait')),
  }
}

function explain(
  error: ApiFailure,
  verb: LifecycleVerb,
  target: Target,
  service: string | null | undefined,
  now: number,
): CliError {
  const flags = flagsOf(target)
  const { identifier, services } = target.environment
  const names = services.map(({ name }) => name)
  if (error.code === 'not_found' && service && !names.includes(service)) {
    const hint = suggest(service, names, 'services')
    return new CliError(EXIT.notFound, `no service '${service}' in ${identifier}`, hint)
  }
  if (error.code === 'not_deployed') {
    return new CliError(EXIT.refused, error.message, `berth deploy ${flags} --wait`)
  }
  const list = `berth tasks ${flags} --type ${verb}`
  return explainRefusal(error, target, now, { noun: `the ${verb}`, verb: `${verb} it`, list })
}

async function post(
  api: Api,
  target: Target,
  verb: LifecycleVerb,
  body: LifecycleRequest,
): Promise<Finished> {
  const path = `/api/environments/${target.environment.id}/${verb}`
  const { value: task, raw } = await api.post(path, Task, {
    body,
    idempotencyKey: randomUUID(),
    madeAt: '/api/tasks',
    expect: 201,
  })
  const isIt = task.environment_id === target.environment.id && task.type === verb
  if (isIt) return { task, raw }
  throw new ApiFailure('nonsense', EXIT.error, `task ${task.id} is not the ${verb}`)
}

const perform =
  (verb: LifecycleVerb) =>
  async ({ body, wait }: LifecycleOptions, context: Context): Promise<ExitCode> => {
    const api = await context.connect()
    const target = await findTarget(api, context, 'change')
    let started: Finished
    try {
      started = await post(api, target, verb, body)
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error
      throw explain(error, verb, target, body.service, context.io.now())
    }
    return finishStart(context, api, target, started, wait)
  }

export const restart = compose(parseLifecycle, perform('restart'))
export const stop = compose(parseLifecycle, perform('stop'))
export const start = compose(parseLifecycle, perform('start'))
