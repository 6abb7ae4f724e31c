// The edge's own socket, for root alone: one line with a call, one line with its answer. Connections, length and time
// are bounded; an invalid call closes the connection.
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { PROXY } from '../../limits/proxy.ts'
import { decodeLine, type EdgeCall, EdgeError, encodeLine, findProblem } from '../protocol.ts'

type Perform = (call: EdgeCall) => Promise<unknown>

async function answer(line: string, perform: Perform): Promise<string> {
  try {
    const call = decodeLine(line) as EdgeCall
    const problem = findProblem(call)
    if (problem) throw new EdgeError('refused', problem)
    return encodeLine({ ok: true, result: (await perform(call)) ?? null })
  } catch (error) {
    const { message } = error as Error
    const kind = error instanceof EdgeError ? error.kind : 'refused'
    return encodeLine({ ok: false, kind, message })
  }
}

function serve(socket: Socket, perform: Perform): void {
  let text = ''
  let isTaken = false
  socket.setEncoding('utf8')
  socket.setTimeout(PROXY.callMs, () => socket.destroy())
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk: string) => {
    if (isTaken) return
    text += chunk
    if (text.length > PROXY.lineBytes) {
      socket.destroy()
      return
    }
    const end = text.indexOf('\n')
    if (end < 0) return
    isTaken = true
    void answer(text.slice(0, end), perform).then((line) => socket.end(line))
  })
}

/** Takes the path over from a dead edge; a live one holds the name server's port, which is opened first. */
export function openControlSocket(path: string, perform: Perform): Promise<Server> {
  rmSync(path, { force: true })
  const server = createServer((socket) => serve(socket, perform))
  server.maxConnections = PROXY.connections
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      chmodSync(path, 0o600)
      resolve(server)
    })
  })
}
