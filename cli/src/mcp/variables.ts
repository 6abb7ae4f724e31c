// list_variables, set_variables, unset_variables. Returns keys, never values: values go into one request and are in no
// answer, plan, hash or error. An invalid key is not repeated either, because it may be a "KEY=value".
import { randomUUID } from 'node:crypto'
import { VARIABLES_HINT, Variable, VariablesPatched } from '@berth/shared/api'
import { isReservedVariable, SYSTEM_VARIABLES, VARIABLE_KEY } from '@berth/shared/service-file'
import type { Api } from '../client/api.ts'
import { type Target, targetName } from '../client/resolve.ts'
import { type Answer, oneLine } from './answer.ts'
import type { Call, Hints, Tool } from './call.ts'
import { hashPlan, type Planned, refuseOutdated } from './plan.ts'
import { refuse } from './refusal.ts'
import {
  PatchResult,
  type Refused,
  SetInput,
  UnsetInput,
  type VariablesPlan,
  VariablesResult,
} from './schemas.ts'

const pathOf = ({ environment }: Target): string => `/api/environments/${environment.id}/variables`

const LEVELS = {
  project: 'the project',
  previews: 'all previews',
  manual: 'all manual environments',
}

const readKeys = async (api: Api, target: Target): Promise<Variable[]> =>
  (await api.list(pathOf(target), Variable)).items

async function list(_: object, call: Call): Promise<Answer> {
  const target = await call.find('read')
  const variables = await readKeys(call.api, target)
  const { environment } = target
  const changed = variables.filter((one) => one.changed_since_deployment)
  const text = [
    variables.length === 0
      ? `${oneLine(targetName(target))} has no custom variables.`
      : `Custom variables of ${oneLine(targetName(target))} (keys only, values can never be read):`,
    ...variables.map(({ key, level }) =>
      level === 'environment' ? `- ${key}` : `- ${key} (from ${LEVELS[level]})`,
    ),
    `Always present: ${SYSTEM_VARIABLES.join(', ')}`,
    ...(environment.variables_changed
      ? [
          `${VARIABLES_HINT}${changed.length > 0 ? `: ${changed.map(({ key }) => key).join(', ')}` : ''}`,
        ]
      : []),
  ]
  return {
    text: text.join('\n'),
    structured: {
      environment_id: environment.id,
      keys: variables.map(({ key }) => key),
      system_keys: [...SYSTEM_VARIABLES],
      variables_changed: environment.variables_changed,
    },
  }
}

/** Invalid keys, by position; their text is not repeated. */
export function wrongKeys(keys: readonly string[]): Refused['problems'] {
  const problems = keys.flatMap((key, index) => {
    if (!VARIABLE_KEY.test(key)) {
      const message = 'a key has letters, digits and _, and does not begin with a digit'
      return [{ field: `key ${index + 1}`, code: 'invalid_key', message }]
    }
    if (!isReservedVariable(key)) return []
    return [{ field: key, code: 'reserved_key', message: 'Berth sets this variable itself' }]
  })
  return problems.length === 0 ? undefined : problems.slice(0, 8)
}

/** Why it would be refused, as far as the client can see; the server decides. */
export function refusedBecause(target: Target, right: string): string | null {
  const { environment } = target
  if (environment.may.includes(right)) return null
  if (environment.status === 'removing') return 'the environment is being removed'
  if (right === 'deploy' && environment.locked_by) {
    return `task ${environment.locked_by.task_id} is ${environment.locked_by.status}`
  }
  if (environment.protected) return `it is protected; only ${oneLine(environment.owner.name)} may`
  return 'your role does not allow it'
}

interface Change {
  set?: Record<string, string>
  unset?: string[]
}

export function planChange(
  target: Target,
  existing: readonly Variable[],
  { set = {}, unset = [] }: Change,
): Planned<VariablesPlan> {
  const own = existing.filter(({ level }) => level === 'environment')
  const before = new Map(own.map((one) => [one.key, one.updated_at]))
  const asked = [...Object.keys(set), ...unset].sort()
  const refused = refusedBecause(target, 'change_variables')
  const split = (keys: string[], isThere: boolean) =>
    keys.filter((key) => before.has(key) === isThere).sort()
  const plan: VariablesPlan = {
    action: unset.length > 0 ? 'unset_variables' : 'set_variables',
    target: oneLine(targetName(target)),
    environment_id: target.environment.id,
    added: split(Object.keys(set), false),
    replaced: split(Object.keys(set), true),
    removed: split(unset, true),
    missing: split(unset, false),
    protected: target.environment.protected,
    refused_because: refused,
  }
  return {
    plan,
    parts: {
      target: [plan.action, plan.environment_id],
      variables: asked.map((key) => [key, before.get(key) ?? null]),
      protection: [plan.protected, refused],
    },
  }
}

const named = (verb: string, keys: readonly string[]): string[] =>
  keys.length === 0 ? [] : [`- ${verb}: ${keys.join(', ')}`]

function planText(plan: VariablesPlan): string {
  return [
    `Plan for ${plan.target}; nothing was changed:`,
    ...named('new', plan.added),
    ...named('replaced', plan.replaced),
    ...named('removed', plan.removed),
    ...named('not there anyway', plan.missing),
    plan.refused_because === null
      ? 'It takes effect with the next deployment.'
      : `It would be refused: ${plan.refused_because}.`,
  ].join('\n')
}

function patchedText(target: Target, done: VariablesPatched): string {
  return [
    `Variables of ${oneLine(targetName(target))}:`,
    ...named('set', done.set),
    ...named('unset', done.unset),
    ...named('had that value already', done.unchanged),
    ...named('was not set', done.missing),
    ...(done.hint === null ? [] : [`${done.hint}. They apply with the next deployment.`]),
  ].join('\n')
}

interface Choice {
  dry_run: boolean
  plan_hash?: string | undefined
}

async function change(body: Change, choice: Choice, call: Call): Promise<Answer> {
  const keys = [...Object.keys(body.set ?? {}), ...(body.unset ?? [])]
  if (keys.length === 0) return refuse({ code: 'empty_change', message: 'No key was given' })
  const problems = wrongKeys(keys)
  if (problems) {
    return refuse({ code: 'validation_failed', message: 'Nothing was changed', problems })
  }
  const { api } = call
  const target = await call.find('change')
  if (choice.dry_run || choice.plan_hash !== undefined) {
    const planned = planChange(target, await readKeys(api, target), body)
    const plan_hash = hashPlan(planned.parts)
    if (choice.dry_run) {
      return { text: planText(planned.plan), structured: { plan: planned.plan, plan_hash } }
    }
    const outdated = refuseOutdated(choice.plan_hash ?? '', planned)
    if (outdated) return outdated
  }
  const { value } = await api.change('PATCH', pathOf(target), VariablesPatched, {
    body,
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  return { text: patchedText(target, value), structured: value }
}

const WRITE: Hints = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: true,
  openWorldHint: false,
}

export const listVariables: Tool<Record<never, never>> = {
  name: 'list_variables',
  title: 'Keys of the custom variables',
  description:
    'Keys of the custom variables of an environment, and whether they changed since the last deployment. ' +
    'Values can never be read.',
  undertaking: 'read',
  hints: {
    readOnlyHint: true,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
  input: {},
  output: VariablesResult,
  run: list,
}

export const setVariables: Tool<typeof SetInput> = {
  name: 'set_variables',
  title: 'Set custom variables',
  description:
    'Sets custom variables of an environment; what was there is replaced and cannot be read back. Takes effect with the ' +
    'next deployment. Do not invent values: set only what the person gave or what is plainly not a secret.',
  undertaking: 'change',
  hints: WRITE,
  input: SetInput,
  output: PatchResult,
  run: ({ variables, ...choice }, call) => change({ set: variables }, choice, call),
}

export const unsetVariables: Tool<typeof UnsetInput> = {
  name: 'unset_variables',
  title: 'Remove custom variables',
  description:
    'Removes custom variables of an environment; their values cannot be brought back. Takes effect with the next deployment.',
  undertaking: 'change',
  hints: WRITE,
  input: UnsetInput,
  output: PatchResult,
  run: ({ keys, ...choice }, call) => change({ unset: [...new Set(keys)] }, choice, call),
}
