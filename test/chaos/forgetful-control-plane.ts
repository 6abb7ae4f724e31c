// A control plane broken on purpose, as it was once: what it says about attempts newer than its backup no agent can accept,
// so that their servers come and go for ever. The harness must notice. Nothing of this is in the product.
import { DesiredState } from '../../control-plane/src/gateways/agents/desired.ts'

const { meet } = DesiredState.prototype
DesiredState.prototype.meet = function broken(this: DesiredState, strangers): void {
  meet.call(
    this,
    strangers.map((stranger) => ({ ...stranger, environmentId: 0, fence: 0n })),
  )
}

await import('../../control-plane/src/main.ts')
