// Everything that these pages do beyond HTML. Without it they read the same.
const root = document.documentElement
const all = (selector, within = document) => [...within.querySelectorAll(selector)]
root.classList.add('js')

// One line for screen readers, said again even where it repeats.
const status = document.body.appendChild(Object.assign(document.createElement('div'), { className: 'vh', role: 'status' }))
const say = text => {
  status.textContent = ''
  setTimeout(() => { status.textContent = text }, 30)
}

const remember = (name, value) => {
  document.cookie = `${name}=${value};path=${document.querySelector('.brand').pathname};max-age=31536000;samesite=lax`
}

// The theme is a cookie, so that the server writes it into the next page.
const toggleTheme = () => {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  root.dataset.theme = dark ? 'light' : 'dark'
  remember('theme', root.dataset.theme)
}

const copyFrom = async button => {
  const target = button.dataset.copyFrom
  await navigator.clipboard.writeText(target ? document.getElementById(target).textContent : button.dataset.copy)
  button.classList.add('done')
  say('Copied')
  setTimeout(() => button.classList.remove('done'), 1200)
}

document.addEventListener('click', e => {
  if (e.target.closest('[data-theme-toggle]')) toggleTheme()
  const copy = e.target.closest('[data-copy],[data-copy-from]')
  if (copy) copyFrom(copy).catch(() => say('Copying is not allowed here'))
})

// The same hash lights up everywhere on the page.
const light = on => e => {
  const hash = e.target.closest?.('[data-h]')?.dataset.h
  if (hash) all(`[data-h="${CSS.escape(hash)}"]`).forEach((el, i, same) => el.classList.toggle('lit', on && same.length > 1))
}
for (const [type, on] of [['pointerover', true], ['pointerout', false], ['focusin', true], ['focusout', false]]) document.addEventListener(type, light(on))

// Copying the short form of a hash gives the whole.
document.addEventListener('copy', e => {
  const of = node => node?.parentElement?.closest('[data-h]')
  const s = getSelection(), hash = of(s.anchorNode)
  if (!hash || s.isCollapsed || hash !== of(s.focusNode)) return
  e.clipboardData.setData('text/plain', hash.dataset.h)
  e.preventDefault()
})

document.addEventListener('keydown', e => {
  const q = document.getElementById('q'), at = document.activeElement
  if (!q || e.ctrlKey || e.metaKey || e.altKey) return
  if (e.key === '/' && !/^(input|textarea|select)$/i.test(at?.tagName) && !at?.isContentEditable) {
    e.preventDefault()
    q.focus()
    q.select()
  } else if (e.key === 'Escape' && at === q) q.blur()
})

// The current entry of a navigation that scrolls sideways is in sight.
const current = document.querySelector('.nav [aria-current]')
if (current) current.parentElement.scrollLeft = current.offsetLeft - 60

// Relative times grow older where they stand, or are shown as they are.
const relative = (ms, now) => {
  const min = Math.floor(Math.abs(now - ms) / 60000), ahead = ms > now
  if (!min) return ahead ? 'in under 1 min' : 'just now'
  const text = min < 60 ? `${min} min` : min < 2880 ? `${Math.floor(min / 60)} h` : `${Math.floor(min / 1440)} days`
  return ahead ? `in ${text}` : `${text} ago`
}
const exact = ms => new Date(ms).toISOString().slice(0, 19).replace('T', ' ') + ' UTC'
const inUTC = document.querySelector('[data-times]')
const age = () => all('time[datetime]').forEach(t => {
  const ms = Date.parse(t.dateTime), both = [relative(ms, Date.now()), exact(ms)]
  if (inUTC.ariaPressed === 'true') both.reverse()
  if (t.textContent !== both[0]) [t.textContent, t.title] = both
})
const showTimes = utc => {
  inUTC.ariaPressed = utc
  age()
}
inUTC.onclick = () => {
  showTimes(inUTC.ariaPressed !== 'true')
  remember('times', inUTC.ariaPressed === 'true' ? 'utc' : 'relative')
}
showTimes(/(^|; )times=utc/.test(document.cookie))
setInterval(() => { if (!document.hidden) age() }, 5000)
