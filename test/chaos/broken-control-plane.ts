// A control plane broken on purpose: each process acknowledges its first requested deployment and does not store it.
// The harness must notice. The requests are intercepted from outside; the product contains none of this.
import { type IncomingMessage, Server, type ServerResponse } from 'node:http'

const { emit } = Server.prototype
let isFirst = true
Server.prototype.emit = function early(this: Server, name: string, ...rest: unknown[]): boolean {
  const [request, response] = rest as [IncomingMessage, ServerResponse]
  const isDeployment =
    name === 'request' && /^\/api\/environments\/\d+\/tasks$/.test(request.url ?? '')
  if (!isFirst || !isDeployment || request.method !== 'POST') {
    return Reflect.apply(emit, this, [name, ...rest])
  }
  isFirst = false
  response.writeHead(201, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ id: 1_000_000 + process.pid }))
  return true
} as typeof emit

await import('../../control-plane/src/main.ts')
