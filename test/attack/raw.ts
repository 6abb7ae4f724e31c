// Requests that no honest client sends: raw bytes on a socket, and what came back within a timeout.
import { connect } from 'node:net'

const ANSWER_MS = 10_000

/** Everything received until the other side closed, or until `done` accepts it. */
export function sendRaw(
  port: number,
  bytes: string,
  done: (text: string) => boolean = () => false,
  ms = ANSWER_MS,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    const timer = setTimeout(() => socket.destroy(), ms)
    socket.setEncoding('latin1').on('data', (piece: string) => {
      text += piece
      if (done(text)) socket.destroy()
    })
    socket.on('error', (error) => (text ? resolve(text) : reject(error)))
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(text)
    })
  })
}

/** One complete answer with a length, or the end of the connection. */
export const isWhole = (text: string): boolean => {
  const end = text.indexOf('\r\n\r\n')
  const length = Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? Number.NaN)
  return end >= 0 && text.length >= end + 4 + length
}

export const statusOf = (text: string): number =>
  Number(/^HTTP\/1\.\d (\d{3})/.exec(text)?.[1] ?? 0)
