// Plans an action: one command of the last successful deployment, then the files it leaves. PURE. The plan of that
// deployment holds the command; the assignment carries only the name.
import type { Action, Step } from '@berth/shared/service-file'
import type { LastPlan, Plan } from './plan.ts'

export const findAction = (last: LastPlan | null | undefined, name: string): Action | undefined =>
  last?.actions.find((action) => action.name === name)

/** Without a deployment, or without such an action in it, only the step remains that reports this. */
export function planAction(last: LastPlan | null | undefined, name: string): Plan {
  const action = findAction(last, name)
  const steps: Plan['phases'][number]['steps'] = [
    { id: 'command', title: action?.title ?? name, work: { kind: 'action' }, undo: [] },
  ]
  if (action?.artifacts) {
    steps.push({ id: 'artifacts', title: 'Collect files', work: { kind: 'artifacts' }, undo: [] })
  }
  return { kind: 'action', phases: [{ name: 'run', title: 'Run', steps }] }
}

/** The command as a step of the manual recipe. */
export const toStep = (action: Action): Step => ({
  title: action.title,
  run: action.run,
  dir: action.dir,
  env: {},
  timeoutMs: action.timeoutMs,
  allowFailure: false,
})
