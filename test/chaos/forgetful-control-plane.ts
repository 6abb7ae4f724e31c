// A control plane broken on purpose, with an old bug: agents cannot accept what it sends about attempts newer than its
// backup, so their servers reconnect forever. The harness must notice. The product contains none of this.
import { DesiredState } from '../../control-plane/src/gateways/agents/desired.ts'

const { meet } = DesiredState.prototype
DesiredState.prototype.meet = function broken(this: DesiredState, unknown): void {
  meet.call(
    this,
    unknown.map((attempt) => ({ ...attempt, environmentId: 0, fence: 0n })),
  )
}

await import('../../control-plane/src/main.ts')
