// A control plane broken on purpose: it acknowledges events before they are committed. A kill in between loses them, and
// the harness must notice. Nothing of this is in the product; the session's own method is wrapped from outside.

import { type AgentMessage, EventAckSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { AgentSession } from '../../control-plane/src/dispatch/session.ts'

const { receive } = AgentSession.prototype
AgentSession.prototype.receive = function early(this: AgentSession, message: AgentMessage): void {
  const last = message.msg.case === 'events' ? message.msg.value.events.at(-1) : undefined
  if (!last) {
    receive.call(this, message)
    return
  }
  this.send({ case: 'eventAck', value: create(EventAckSchema, { ackedSeq: last.seq }) })
  // longer than a deployment of the harness: whenever the kill comes, something acknowledged is not committed
  setTimeout(() => receive.call(this, message), 4_000)
}

await import('../../control-plane/src/main.ts')
