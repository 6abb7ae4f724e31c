// The list of shortcuts, and the switch that turns them off.
import { Dialog } from '../components/dialog.tsx'
import { shortcutsOn, switchShortcuts } from '../components/shortcuts.ts'
import { useStore } from '../stores.ts'
import css from './shell.module.css'

const KEYS = [
  ['⌘K or Ctrl K', 'Search and go anywhere'],
  ['g p', 'Projects'],
  ['g s', 'Servers'],
  ['/', 'Filter, or search in a log'],
  ['j k Enter', 'Next row, previous row, open'],
  ['d', 'Deploy the open environment (asks first)'],
  ['n N f e [ ]', 'In a log: matches, follow, next error, phases'],
  ['?', 'Show this help'],
  ['Esc', 'Close'],
] as const

export default function Help({ onClose }: { onClose(): void }) {
  const isOn = useStore(shortcutsOn)
  return (
    <Dialog title="Keyboard and help" onClose={onClose}>
      <table className={css.keys}>
        <tbody>
          {KEYS.map(([keys, what]) => (
            <tr key={keys}>
              <th scope="row">
                <kbd>{keys}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label className="row">
        <input
          type="checkbox"
          checked={isOn}
          onChange={(event) => switchShortcuts(event.currentTarget.checked)}
        />
        Single-key shortcuts
      </label>
      <p className="muted small">
        The client does all of this too: <code>berth --help</code>. See also the{' '}
        <a href="/api/docs">REST API</a>.
      </p>
    </Dialog>
  )
}
