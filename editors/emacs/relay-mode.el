;;; relay-mode.el --- Relay and Relax texts  -*- lexical-binding: t; -*-

;; Package-Requires: ((emacs "26.1"))
;; Keywords: languages

;;; Commentary:
;; Highlighting, indentation and comments for .relay files; the language server through eglot
;; (part of Emacs 29) or lsp-mode, also for Python files in `relax-tvmscript-mode'.

;;; Code:

(require 'python)

(defvar relay-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 124" table)
    (modify-syntax-entry ?* ". 23bn" table)
    (modify-syntax-entry ?\n ">" table)
    (modify-syntax-entry ?# "<" table)
    (modify-syntax-entry ?% "_" table)
    (modify-syntax-entry ?@ "_" table)
    (modify-syntax-entry ?_ "w" table)
    (modify-syntax-entry ?\" "\"" table)
    table)
  "Syntax of Relay texts.")

(defconst relay-keywords
  '("let" "fn" "def" "if" "else" "type" "match" "extern" "free_var" "ref" "ref_read" "ref_write" "data"
    "rel" "op" "grad" "prim_func" "where" "case" "shape" "match_shape" "match_cast" "dataflow" "for" "while" "in" "alloc"
    "init" "kernel" "compute")
  "Words of the language.")

(defconst relay-font-lock
  `((,(regexp-opt relay-keywords 'symbols) . font-lock-keyword-face)
    ("@[[:alpha:]_][[:alnum:]_]*\\(?:[./][[:alnum:]_]+\\)*" . font-lock-function-name-face)
    ("%[[:alnum:]_]+\\(?:\\.[[:alnum:]_]+\\)*" . font-lock-variable-name-face)
    ("\\_<\\(True\\|False\\|None\\|inff?\\|nanf?\\)\\_>" . font-lock-constant-face)
    ("\\_<\\(Tensor\\|Shape\\|Buffer\\|Object\\|bool\\|bfloat16\\|u?int[0-9]*\\|float[0-9]*\\)\\_>"
     . font-lock-type-face)
    ("\\_<[[:upper:]][[:alnum:]_]*\\_>" . font-lock-type-face)
    ("\\_<\\([[:alpha:]_][[:alnum:]_.]*\\)\\s-*(" 1 font-lock-builtin-face)
    ("\\_<meta\\s-*\\[[^]]*\\]\\s-*\\[[0-9]*\\]" . font-lock-preprocessor-face)
    ("#\\s-*\\[\\(version[^]]*\\|metadata\\)\\]" 0 font-lock-preprocessor-face t))
  "What is highlighted, and how.")

(defun relay-indent-line ()
  "Indent the line by two columns for each bracket that is open at its start."
  (interactive)
  (let* ((offset (- (current-column) (current-indentation)))
         (column
          (save-excursion
            (back-to-indentation)
            (let ((depth (car (syntax-ppss))))
              (when (looking-at-p "[])}]") (setq depth (1- depth)))
              (* 2 (max 0 depth))))))
    (indent-line-to column)
    (when (> offset 0) (forward-char offset))))

;;;###autoload
(define-derived-mode relay-mode prog-mode "Relay"
  "Major mode for Relay and Relax texts."
  (setq-local comment-start "// ")
  (setq-local comment-start-skip "\\(?://+\\|/\\*+\\|#+\\)\\s-*")
  (setq-local comment-end "")
  (setq-local indent-tabs-mode nil)
  (setq-local indent-line-function #'relay-indent-line)
  (setq-local font-lock-defaults '(relay-font-lock)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.relay\\'" . relay-mode))

;;;###autoload
(define-derived-mode relax-tvmscript-mode python-mode "TVMScript"
  "Major mode for Relax in TVMScript: Python, whose files are the server's in this mode only.")

(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(relay-mode . ("relax-lsp")))
  (add-to-list 'eglot-server-programs
               '((relax-tvmscript-mode :language-id "tvmscript") . ("relax-lsp"))))

(with-eval-after-load 'lsp-mode
  (when (fboundp 'lsp-register-client)
    (add-to-list 'lsp-language-id-configuration '(relay-mode . "relay"))
    (add-to-list 'lsp-language-id-configuration '(relax-tvmscript-mode . "tvmscript"))
    (lsp-register-client
     (make-lsp-client :new-connection (lsp-stdio-connection '("relax-lsp"))
                      :activation-fn (lsp-activate-on "relay" "tvmscript")
                      :server-id 'relax-lsp))))

(with-eval-after-load 'compile
  (add-to-list 'compilation-error-regexp-alist-alist
               '(relax "^\\(.+?\\):\\([0-9]+\\):\\([0-9]+\\): \\(?:error\\|\\(warning\\)\\|\\(note\\)\\)\\[RX"
                       1 2 3 (4 . 5)))
  (add-to-list 'compilation-error-regexp-alist 'relax))

(provide 'relay-mode)
;;; relay-mode.el ends here
